//! The three patches: the first document is an object, the second a patch of it. They are parted by a zero byte.
#![no_main]

use evenkeel_schema::{patch, types};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut documents = bytes.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(object)), Some(Ok(document))) = (documents.next(), documents.next()) else { return };
    let _ = patch::json::apply(&object, &document);
    let _ = patch::merge::apply(&mut object.clone(), document.clone());
    let pod = types::builtin("", "v1", "Pod").expect("pods are built in");
    let _ = patch::strategic::apply(pod, &mut object.clone(), &mut document.clone());
});
