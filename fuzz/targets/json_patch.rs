//! Fuzzes JSON patches. The input is an object and a patch, separated by a zero byte. A patch that contains
//! only `test` operations changes nothing.
#![no_main]

use evenkeel_schema::patch::json;
use evenkeel_schema::json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut documents = bytes.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(object)), Some(Ok(patch))) = (documents.next(), documents.next()) else { return };
    let Ok(patched) = json::apply(&object, &patch) else { return };
    let operations = patch.as_array().cloned().unwrap_or_default();
    if operations.iter().all(|operation| operation["op"] == "test") {
        assert_eq!(patched, object);
    }
});
