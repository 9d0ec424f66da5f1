//! LimitRanges: for containers, limits and requests follow from one another.

use super::{Object, child, text};
use crate::json::Value;

pub(super) fn item(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    fill_in(item, "default", "max");
    fill_in(item, "defaultRequest", "default");
    fill_in(item, "defaultRequest", "min");
}

fn fill_in(item: &mut Object, target: &str, source: &str) {
    let Some(Value::Object(source)) = item.get(source).cloned() else { return };
    let target = child(item, target);
    for (name, quantity) in source {
        target.entry(name).or_insert(quantity);
    }
}
