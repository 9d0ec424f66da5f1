//! Normalizing and defaulting only what differs from the stored object gives the same result as processing
//! the whole object.

use evenkeel_schema::json::Value;
use evenkeel_schema::{defaults, normalize};

use crate::recorded::{DEFAULTS, cases};

struct Kind<'a>(&'a str, &'a str, &'a str);

impl<'a> Kind<'a> {
    fn of(case: &'a Value) -> Self {
        let text = |name: &str| case[name].as_str().unwrap();
        Self(text("group"), text("version"), text("kind"))
    }

    fn settle(&self, object: &Value, old: Option<&Value>) -> Value {
        let mut object = object.clone();
        normalize::normalize_since(self.0, self.1, self.2, &mut object, old);
        defaults::apply_since(self.0, self.1, self.2, &mut object, old);
        object
    }
}

/// All objects that differ from this one by a field or item that is removed or null.
fn neighbours(object: &Value) -> Vec<Value> {
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                members.iter().map(|(name, it)| (name.replace('/', "~1"), it)).collect()
            }
            Value::Array(items) => items.iter().enumerate().map(|(at, it)| (at.to_string(), it)).collect(),
            _ => Vec::new(),
        };
        for (name, child) in children {
            found.push(format!("{at}/{name}"));
            places(child, &format!("{at}/{name}"), found);
        }
    }
    let mut found = Vec::new();
    places(object, "", &mut found);
    let mut made = Vec::new();
    for place in found {
        let mut without = object.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        match without.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.remove(&name.replace("~1", "/"))),
            Value::Array(items) => drop(items.remove(name.parse().unwrap())),
            _ => unreachable!("it has children"),
        }
        let mut nulled = object.clone();
        *nulled.pointer_mut(&place).unwrap() = Value::Null;
        made.extend([without, nulled]);
    }
    made
}

#[test]
fn what_differs_is_settled_as_the_whole_is() {
    let (cases, mut compared) = (cases(DEFAULTS), 0);
    for case in &cases {
        let kind = Kind::of(case);
        let old = kind.settle(&case["object"], None);
        assert_eq!(kind.settle(&old, Some(&old)), old);
        for changed in neighbours(&old) {
            assert_eq!(kind.settle(&changed, Some(&old)), kind.settle(&changed, None), "{}", case["case"]);
            compared += 1;
        }
        let others = cases.iter().filter(|other| Kind::of(other).2 == kind.2);
        for other in others {
            let other = &other["object"];
            assert_eq!(kind.settle(other, Some(&old)), kind.settle(other, None), "{}", case["case"]);
        }
    }
    assert!(compared > 1000, "{compared}");
}
