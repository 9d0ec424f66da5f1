//! Fuzzes protobuf bodies: the envelope and its content.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = evenkeel_schema::protobuf::decode(bytes);
    let mut body = b"k8s\0".to_vec();
    body.extend_from_slice(bytes);
    let _ = evenkeel_schema::protobuf::decode(&body);
});
