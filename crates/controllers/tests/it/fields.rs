//! Every field of the workload kinds has an effect, or the book says that it has none.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_schema::types::{Schema, builtin};

const KINDS: [(&str, &str); 8] = [
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("", "ReplicationController"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("", "Pod"),
];

/// Collects the fields of a type and of the types of its fields, by the names of the types.
fn collect(schema: &Schema, all: &mut BTreeMap<String, BTreeSet<String>>) {
    if let Some(name) = schema.type_name() {
        let is_workload = name.starts_with("io.k8s.api.");
        let fields: BTreeSet<_> =
            schema.resolve().fields().iter().map(|(field, _)| field.to_owned()).collect();
        let short = name.rsplit('.').next().unwrap().to_owned();
        if !is_workload || fields.is_empty() || all.insert(short, fields).is_some() {
            return;
        }
    }
    let resolved = schema.resolve();
    resolved.fields().iter().for_each(|(_, field)| collect(field, all));
    resolved.items().into_iter().chain(resolved.values()).for_each(|inner| collect(inner, all));
}

/// A field that is accepted and ignored silently makes tests of operators pass where a real cluster would not.
#[test]
fn every_field_of_the_workload_kinds_is_listed() {
    let mut fields = BTreeMap::new();
    for (group, kind) in KINDS {
        let schema = builtin(group, "v1", kind).unwrap();
        collect(schema.field("spec").unwrap(), &mut fields);
    }
    let known: BTreeSet<(String, String)> = fields
        .into_iter()
        .flat_map(|(name, fields)| fields.into_iter().map(move |it| (name.clone(), it)))
        .collect();
    let list = include_str!("../fields.tsv");
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split('\t').collect()).collect();
    let listed: BTreeSet<_> = rows.iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
    let unlisted: Vec<_> = known.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&known).collect();
    assert!(
        unlisted.is_empty() && gone.is_empty(),
        "not in the list: {unlisted:?}\nin the list alone: {gone:?}"
    );
}

#[test]
fn the_book_names_the_fields_without_effect() {
    let page = include_str!("../../../../docs/src/absent.md");
    let listed = include_str!("../fields.tsv").lines().map(|line| line.split('\t').collect::<Vec<_>>());
    for row in listed.filter(|row| row[2] == "none") {
        let (name, field, why) = (row[0], row[1], row[3]);
        let said = page.lines().any(|line| {
            line.starts_with(&format!("| `{name}` |"))
                && line.contains(&format!("`{field}`"))
                && line.contains(why)
        });
        assert!(said, "the book does not say that {name}.{field} has no effect: {why}");
    }
}
