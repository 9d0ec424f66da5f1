//! Fuzzes merge patches. The input is an object and a patch, separated by a zero byte. Applying a patch a
//! second time changes nothing.
#![no_main]

use evenkeel_schema::patch::merge;
use evenkeel_schema::json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut documents = bytes.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(mut once)), Some(Ok(patch))) = (documents.next(), documents.next()) else { return };
    if merge::apply(&mut once, patch.clone()).is_err() {
        return;
    }
    let mut twice = once.clone();
    merge::apply(&mut twice, patch).expect("what was applied can be applied again");
    assert_eq!(once, twice);
});
