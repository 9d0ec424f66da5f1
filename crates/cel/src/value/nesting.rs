//! Measures how deep a computed value is nested.

use crate::syntax::LEVELS_MAX;
use crate::value::equality::Fuel;
use crate::value::{Fault, List, Map, Outcome, Value};

/// How many parts of a value are measured. The largest possible object has as many. A value that contains another one twice,
/// which contains a third one twice, and so on, has exponentially many.
const PARTS_MAX: u64 = 1_000_000;

/// Returns the value, unless it has too many parts to be measured, or more levels than one expression can put around an
/// input of `input_levels_max` levels.
pub fn bounded(value: Value<'_>, input_levels_max: usize) -> Result<Value<'_>, String> {
    match fits(&value, input_levels_max + LEVELS_MAX, &Fuel::of(PARTS_MAX)) {
        Ok(()) => Ok(value),
        Err(Fault::Limit) => Err("value is too large".to_owned()),
        Err(Fault::Error(error)) => Err(error),
    }
}

fn fits(value: &Value<'_>, levels: usize, fuel: &Fuel) -> Outcome<()> {
    fuel.spend(1)?;
    let below = || levels.checked_sub(1).ok_or_else(|| Fault::new("value is nested too deep"));
    match value {
        Value::List(List::Owned(items)) => {
            let below = below()?;
            items.iter().try_for_each(|item| fits(item, below, fuel))
        }
        Value::Map(Map::Owned(entries)) => {
            let below = below()?;
            entries.values().try_for_each(|(_, value)| fits(value, below, fuel))
        }
        Value::Optional(Some(value)) => fits(value, below()?, fuel),
        _ => Ok(()),
    }
}
