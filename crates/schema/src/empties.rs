//! The empty lists and maps that a client wrote.
//!
//! They are stored like absent ones, and the rules of built-in kinds do not distinguish them. But the messages about
//! refused values show them, because Kubernetes' structs keep them until they are stored.

use crate::json::Value;

/// The places of empty lists and maps in an object, as JSON pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Empties {
    lists: Vec<String>,
    maps: Vec<String>,
}

/// How many places are kept: more than any object that is written by hand has, and few enough to be nothing beside it.
const PLACES_MAX: usize = 64;

/// Finds the empty lists and maps of an object outside of its metadata.
pub fn find(object: &Value) -> Empties {
    let mut found = Empties::default();
    let Some(fields) = object.as_object() else { return found };
    let mut path = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "metadata") {
        path.push(Step::Name(name));
        walk(value, &mut path, &mut found);
        path.pop();
    }
    found
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

fn walk<'a>(value: &'a Value, path: &mut Vec<Step<'a>>, found: &mut Empties) {
    match value {
        Value::Array(items) if items.is_empty() => note(path, &mut found.lists),
        Value::Object(fields) if fields.is_empty() => note(path, &mut found.maps),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                walk(item, path, found);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                path.push(Step::Name(name));
                walk(item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn note(path: &[Step<'_>], places: &mut Vec<String>) {
    if places.len() < PLACES_MAX {
        let step = |step: &Step<'_>| match step {
            Step::Name(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => format!("/{index}"),
        };
        places.push(path.iter().map(step).collect());
    }
}

impl Empties {
    /// Returns the object with these empty lists and maps, except where it has another value now; `None` if that
    /// changes nothing.
    pub fn restore(&self, object: &Value) -> Option<Value> {
        let lists = self.lists.iter().map(|place| (place, Value::Array(Default::default())));
        let maps = self.maps.iter().map(|place| (place, Value::Object(Default::default())));
        let absent = |place: &str| object.pointer(place).is_none_or(Value::is_null);
        let missing: Vec<_> = lists.chain(maps).filter(|(place, _)| absent(place)).collect();
        let mut restored = if missing.is_empty() { return None } else { object.clone() };
        for (place, empty) in missing {
            let Some((parent, name)) = place.rsplit_once('/') else { continue };
            let name = name.replace("~1", "/").replace("~0", "~");
            match restored.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.insert(name.into(), empty)),
                Some(Value::Array(items)) => {
                    if let Some(item) = name.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                        *item = empty;
                    }
                }
                _ => {}
            }
        }
        Some(restored)
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn empty_lists_and_maps_come_back_where_they_were() {
        let written = json!({
            "metadata": {"labels": {}},
            "spec": {"a": [], "b/c": {}, "list": [{"x": {}}, {"y": 1}], "gone": {"z": []}, "full": []},
        });
        let found = find(&written);
        let stored = json!({"metadata": {}, "spec": {"list": [{}, {"y": 1}], "full": [1]}});
        let shown = json!({
            "metadata": {},
            "spec": {"a": [], "b/c": {}, "list": [{"x": {}}, {"y": 1}], "full": [1]},
        });
        assert_eq!(found.restore(&stored), Some(shown));
        assert_eq!(find(&json!({"spec": {"a": 1}})).restore(&stored), None);
    }

    #[test]
    fn the_number_of_places_is_bounded() {
        let many: Vec<Value> = vec![json!({}); 2 * PLACES_MAX];
        assert_eq!(find(&json!({"spec": many})).maps.len(), PLACES_MAX);
    }
}
