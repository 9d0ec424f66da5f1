//! Fuzzes strategic merge patches of pods. The input is an object and a patch, separated by a zero byte. An
//! empty patch changes nothing.
#![no_main]

use evenkeel_schema::patch::strategic;
use evenkeel_schema::types;
use evenkeel_schema::json::{Value, json};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut documents = bytes.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(object)), Some(Ok(mut patch))) = (documents.next(), documents.next()) else { return };
    let pod = types::builtin("", "v1", "Pod").expect("pods are built in");
    let mut patched = object.clone();
    if strategic::apply(pod, &mut patched, &mut patch).is_ok() {
        let before = patched.clone();
        if strategic::apply(pod, &mut patched, &mut json!({})).is_ok() {
            assert_eq!(patched, before);
        }
    }
});
