//! Conversion of Events. core/v1 is the storage version; events.k8s.io/v1 has other field names.

use evenkeel_schema::json::{Map, Value};

/// The field names in core/v1 and in events.k8s.io/v1.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts from core/v1 to events.k8s.io/v1.
pub(super) fn from_storage_version(event: Value) -> Value {
    rename(event, "events.k8s.io/v1", |stored, shown| (stored, shown))
}

/// Converts from events.k8s.io/v1 to core/v1.
pub(super) fn to_storage_version(event: Value) -> Value {
    rename(event, "v1", |stored, shown| (shown, stored))
}

fn rename(
    event: Value,
    api_version: &str,
    direction: fn(&'static str, &'static str) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(event) = event else { return event };
    let names = NAMES.map(|(stored, shown)| direction(stored, shown));
    let mut renamed: Map = event
        .into_iter()
        .map(|(key, value)| match names.iter().find(|(from, _)| key == *from) {
            Some((_, to)) => ((*to).into(), value),
            None => (key, value),
        })
        .collect();
    renamed.insert("apiVersion".into(), api_version.into());
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut renamed = Value::Object(renamed);
    evenkeel_schema::normalize::normalize(group, "v1", "Event", &mut renamed);
    renamed
}
