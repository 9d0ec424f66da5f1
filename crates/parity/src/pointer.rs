//! JSON pointers. In a pointer to what is removed, `*` stands for any key or index of one level.

use serde_json::{Map, Value};

/// Splits a pointer into its unescaped parts.
pub(crate) fn parts(pointer: &str) -> Vec<String> {
    pointer
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// Joins parts into a pointer.
pub(crate) fn join(parts: &[String]) -> String {
    parts.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Returns the value at a pointer.
pub(crate) fn get<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    parts(pointer).iter().try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        Value::Object(map) => map.get(part),
        _ => None,
    })
}

/// Removes the map entries that a path names. Elements of a list are entered but never removed.
pub(crate) fn remove(value: &mut Value, path: &[String]) {
    let Some((head, rest)) = path.split_first() else { return };
    match value {
        Value::Array(items) if head == "*" => items.iter_mut().for_each(|item| remove(item, rest)),
        Value::Array(items) => {
            if let Some(item) = head.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                remove(item, rest);
            }
        }
        Value::Object(map) => remove_from_map(map, head, rest),
        _ => {}
    }
}

fn remove_from_map(map: &mut Map<String, Value>, head: &str, rest: &[String]) {
    if rest.is_empty() && head == "*" {
        map.clear();
    } else if rest.is_empty() {
        map.remove(head);
    } else if head == "*" {
        map.values_mut().for_each(|item| remove(item, rest));
    } else if let Some(item) = map.get_mut(head) {
        remove(item, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_is_one_level() {
        let mut value = json!({"items": [{"a": 1, "b": 2}, {"a": 3}]});
        remove(&mut value, &parts("/items/*/a"));
        assert_eq!(value, json!({"items": [{"b": 2}, {}]}));
    }

    #[test]
    fn escapes_go_both_ways() {
        let path = parts("/metadata/labels/app.kubernetes.io~1name");
        assert_eq!(path[2], "app.kubernetes.io/name");
        assert_eq!(join(&path), "/metadata/labels/app.kubernetes.io~1name");
    }
}
