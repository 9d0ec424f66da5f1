use proptest::prelude::*;

use super::*;

/// Any JSON value, as `serde_json` has it.
fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        // Eighths: `serde_json` reads other fractions with a rounding error in the last digit.
        (-8000i32..8000).prop_map(|eighths| (f64::from(eighths) / 8.0).into()),
        "[a-zé\"\n]{0,30}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map("[abcdé]{0,2}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A change of a map.
#[derive(Clone, Debug)]
enum Change {
    Insert(u16, u8),
    Remove(u16),
    Entry(u16, u8),
    Retain(u8),
    Set(u16, u8),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0..300u16, any::<u8>()).prop_map(|(key, value)| Change::Insert(key, value)),
        2 => (0..300u16).prop_map(Change::Remove),
        2 => (0..300u16, any::<u8>()).prop_map(|(key, value)| Change::Entry(key, value)),
        1 => any::<u8>().prop_map(Change::Retain),
        2 => (0..300u16, any::<u8>()).prop_map(|(key, value)| Change::Set(key, value)),
    ]
}

proptest! {
    #[test]
    fn a_value_is_what_serde_json_has(plain in any_value()) {
        let text = plain.to_string();
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(value.to_string(), text);
        prop_assert_eq!(format!("{value:#}"), format!("{plain:#}"));
        prop_assert_eq!(format!("{value:?}"), format!("{plain:?}"));
        prop_assert_eq!(&value, &Value::from(&plain));
        prop_assert_eq!(serde_json::Value::from(value), plain);
    }

    #[test]
    fn equality_is_that_of_serde_json(a in any_value(), b in any_value()) {
        prop_assert_eq!(Value::from(&a) == Value::from(&b), a == b);
        prop_assert!(Value::from(&a) == Value::from(&a));
    }

    /// A map is changed beside a B-tree, beyond the number of members at which its form changes, while clones of it that
    /// are held must not change.
    #[test]
    fn a_map_is_what_a_b_tree_is(changes in prop::collection::vec(any_change(), 0..400)) {
        let mut map = Map::new();
        let mut tree = std::collections::BTreeMap::<String, Value>::new();
        let mut held = (map.clone(), tree.clone());
        for (at, change) in changes.into_iter().enumerate() {
            let name = |key: u16| format!("name-{key}");
            match change {
                Change::Insert(key, value) => prop_assert_eq!(
                    map.insert(name(key).into(), value.into()),
                    tree.insert(name(key), value.into())
                ),
                Change::Remove(key) => prop_assert_eq!(map.remove(&name(key)), tree.remove(&name(key))),
                Change::Entry(key, value) => prop_assert_eq!(
                    map.entry(name(key)).or_insert_with(|| value.into()),
                    tree.entry(name(key)).or_insert_with(|| value.into())
                ),
                Change::Retain(least) => {
                    map.retain(|_, value| value.as_u64() >= Some(u64::from(least / 8)));
                    tree.retain(|_, value| value.as_u64() >= Some(u64::from(least / 8)));
                }
                Change::Set(key, value) => {
                    let places = (map.get_mut(&name(key)), tree.get_mut(&name(key)));
                    if let (Some(a), Some(b)) = places {
                        (*a, *b) = (value.into(), value.into());
                    }
                }
            }
            prop_assert_eq!(map.len(), tree.len());
            if at % 50 == 0 {
                let same = |(map, tree): &(Map, std::collections::BTreeMap<String, Value>)| {
                    map.iter().map(|(name, value)| (name.as_str(), value)).eq(tree.iter().map(|it| (it.0.as_str(), it.1)))
                };
                prop_assert!(same(&held));
                held = (map.clone(), tree.clone());
                prop_assert!(same(&held));
                prop_assert_eq!(&map, &tree.iter().map(|(name, value)| (name.as_str(), value.clone())).collect());
            }
        }
    }
}

#[test]
fn a_value_takes_three_words() {
    assert_eq!(size_of::<Value>(), 24);
}

#[test]
fn a_change_copies_only_the_way_to_it() {
    let old = json!({"a": {"b": {"c": 1}, "d": {"e": 2}}, "f": [{"g": 3}, {"h": 4}]});
    let mut new = old.clone();
    new["a"]["b"]["c"] = 2.into();
    new["f"][0]["g"] = 4.into();
    assert_eq!(old["a"]["b"]["c"], 1);
    assert_eq!(old["f"][0]["g"], 3);
    assert!(!new["a"].is_shared_with(&old["a"]));
    assert!(new["a"]["d"].is_shared_with(&old["a"]["d"]));
    assert!(new["f"][1].is_shared_with(&old["f"][1]));
}

#[test]
fn looking_for_what_is_missing_copies_nothing() {
    let old = json!({"a": {"b": 1}});
    let mut new = old.clone();
    assert!(new.get_mut("x").is_none());
    assert!(new.as_object_mut().unwrap().remove("x").is_none());
    assert!(new.pointer_mut("/x/y").is_none());
    assert!(new.is_shared_with(&old));
}

#[test]
fn the_last_of_equal_names_counts() {
    let value: Value = serde_json::from_str(r#"{"b": 1, "a": 1, "b": 2}"#).unwrap();
    assert_eq!(value, json!({"a": 1, "b": 2}));
}

#[test]
fn pointers_and_indexes_are_those_of_serde_json() {
    let plain = serde_json::json!({"a/b": [1, {"~": 2}], "": 3});
    let mut value = Value::from(&plain);
    for pointer in ["", "/", "/a~1b", "/a~1b/0", "/a~1b/1/~0", "/a~1b/01", "/a~1b/+1", "/a~1b/2", "x", "/x"] {
        assert_eq!(value.pointer(pointer).cloned(), plain.pointer(pointer).map(Value::from), "{pointer}");
        assert_eq!(value.pointer_mut(pointer).cloned(), plain.pointer(pointer).map(Value::from), "{pointer}");
    }
    value["new"]["deep"] = true.into();
    assert_eq!(value["new"], json!({"deep": true}));
    assert_eq!(value["new"]["deep"]["deeper"], Value::Null);
}

/// Reading the text of a value used to fail, so that decoding ended at the first quantity of a pod without an error.
#[test]
fn a_value_is_read_as_any_type() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    enum Kind {
        Plain,
        Counted(u8),
    }
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Meters(f64);
    #[derive(serde::Deserialize)]
    struct All {
        text: Box<serde_json::value::RawValue>,
        kinds: Vec<Kind>,
        far: Meters,
        none: Option<u8>,
        some: Option<u8>,
        value: Value,
    }
    let value = json!({"text": {"b": [1, 2.5]}, "kinds": ["Plain", {"Counted": 2}], "far": 1.5, "none": null, "some": 3,
        "value": {"a": 1}});
    let all: All = from_value(value).unwrap();
    assert_eq!(all.text.get(), r#"{"b":[1,2.5]}"#);
    assert_eq!(all.kinds, [Kind::Plain, Kind::Counted(2)]);
    assert_eq!((all.far, all.none, all.some), (Meters(1.5), None, Some(3)));
    assert_eq!(all.value, json!({"a": 1}));
    assert!(from_value::<u8>(json!("1")).is_err());
}
