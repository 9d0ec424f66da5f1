//! JSON bodies, with detection of duplicate keys.

use std::cell::Cell;

use evenkeel_schema::json::Tree;
use evenkeel_schema::json::Value;
use serde::de::DeserializeSeed as _;

use super::{Decoded, Oddities, syntax};

/// Parses a JSON body. Errors are worded as in Go. With `strict`, duplicate keys are reported.
pub(crate) fn parse(body: &[u8], strict: bool) -> Result<Decoded, String> {
    let repeats = Cell::new(false);
    let object = read(body, &repeats)?;
    let mut oddities = Oddities::default();
    // Duplicate keys are rare, so only then is the body parsed a second time to find their paths.
    if strict && repeats.get() {
        syntax::repeated_keys(body, &mut oddities.0);
    }
    Ok(Decoded { object, oddities })
}

fn read(body: &[u8], repeats: &Cell<bool>) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Tree(repeats).deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| syntax::explain(body).unwrap_or_else(|| error.to_string()))
}
