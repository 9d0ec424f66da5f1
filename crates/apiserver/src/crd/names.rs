//! Acceptance of a CRD's names: only those that no other CRD of the group has.

use evenkeel_schema::json::{Map, Value, json};

use super::{Definitions, all, condition, set_condition};
use crate::storage;

/// Accepts the names that are free and sets the conditions.
pub(super) fn accept(definitions: &Definitions, definition: &mut Value) {
    let taken = taken(definitions, definition);
    let requested = definition["spec"]["names"].clone();
    let old = definition["status"]["acceptedNames"].clone();
    let mut accepted = Map::new();
    let mut conflict = None;
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let Some(value) = requested.get(field).filter(|it| !it.is_null()) else { continue };
        match texts(value).find(|it| taken.iter().any(|taken| taken == it)) {
            Some(used) => {
                conflict.get_or_insert((reason, format!("{used:?} is already in use")));
                // A name that was accepted before stays until the new one is free.
                if let Some(old) = old.get(field).filter(|it| texts(it).any(|it| !it.is_empty())) {
                    accepted.insert(field.into(), old.clone());
                }
            }
            None => drop(accepted.insert(field.into(), value.clone())),
        }
    }
    accepted.extend(requested.get("categories").map(|it| ("categories".to_owned(), it.clone())));
    for required in ["kind", "plural"] {
        accepted.entry(required).or_insert(json!(""));
    }
    definition["status"]["acceptedNames"] = accepted.into();
    set_conditions(definitions, definition, conflict);
}

fn set_conditions(definitions: &Definitions, definition: &mut Value, conflict: Option<(&str, String)>) {
    let now = definitions.now();
    let established = condition(definition, "Established").is_some_and(|it| it["status"] == "True");
    let (accepted, reason, message) = match &conflict {
        None => (true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => (false, *reason, message.as_str()),
    };
    set_condition(definition, "NamesAccepted", accepted, reason, message, &now);
    match (established, accepted) {
        // An established CRD stays established.
        (true, _) => {}
        (false, true) => {
            let message = "the initial names have been accepted";
            set_condition(definition, "Established", true, "InitialNamesAccepted", message, &now);
        }
        (false, false) => {
            set_condition(
                definition,
                "Established",
                false,
                "NotAccepted",
                "not all names are accepted",
                &now,
            );
        }
    }
}

/// The accepted names of the other CRDs in the same group.
fn taken(definitions: &Definitions, definition: &Value) -> Vec<String> {
    let all = all(definitions);
    let name = &definition["metadata"]["name"];
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let others = all.iter().filter(|it| *name != *it.header.name);
    // A CRD's name ends with its group, so most others need not be parsed.
    let others = others
        .filter(|it| it.header.name.ends_with(group))
        .filter_map(|it| storage::read_or_skip::<Value>(it));
    let others = others.filter(|it| it["spec"]["group"] == group);
    others
        .flat_map(|other| {
            let names = &other["status"]["acceptedNames"];
            let fields = ["plural", "singular", "shortNames", "kind", "listKind"];
            fields.iter().flat_map(|it| texts(&names[*it])).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|it| !it.is_empty())
        .collect()
}

/// A string, or the strings of a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    value.as_str().into_iter().chain(list)
}
