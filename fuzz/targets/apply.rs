//! Fuzzes server-side apply. The input is the live object and an applied configuration, separated by a zero
//! byte. A successful apply can be repeated and then changes nothing.
#![no_main]

use evenkeel_schema::managed_fields::{self, Context, OneVersion, Reset};
use evenkeel_schema::types;
use jiff::Timestamp;
use evenkeel_schema::json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut documents = bytes.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(live)), Some(Ok(config))) = (documents.next(), documents.next()) else { return };
    let ctx = Context {
        schema: types::builtin("", "v1", "Pod").expect("pods are built in"),
        api_version: "v1",
        kind: "Pod",
        manager: "fuzz",
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
        reset: Reset::none(),
        versions: &OneVersion,
    };
    let live = live.is_object().then_some(&live);
    if let Ok(once) = managed_fields::apply(&ctx, live.cloned(), &config, true) {
        let twice = managed_fields::apply(&ctx, Some(once.clone()), &config, true).expect("what was applied can be applied again");
        assert_eq!(once, twice);
    }
});
