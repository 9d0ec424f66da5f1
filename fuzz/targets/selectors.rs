//! Fuzzes label and field selectors, quantities and times, as they occur in queries and objects.
#![no_main]

use evenkeel_schema::quantity::Quantity;
use evenkeel_schema::selector;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = selector::LabelSelector::parse(text);
    let _ = selector::FieldSelector::parse(text);
    if let Ok(quantity) = Quantity::parse(text) {
        let printed = quantity.to_string();
        let again = Quantity::parse(&printed).expect("what is printed can be read");
        assert_eq!(again.to_string(), printed, "{text}");
    }
});
