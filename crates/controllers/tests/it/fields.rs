//! Every field of the workload kinds has an effect, or the book says that it has none.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_schema::types::{Schema, builtin};

/// The kinds that make and run pods, and those that go with them.
const KINDS: [(&str, &str, &str); 12] = [
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "ReplicationController"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Service"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("policy", "v1", "PodDisruptionBudget"),
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
    for (group, version, kind) in KINDS {
        let schema = builtin(group, version, kind).unwrap();
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

/// A field once was said to have an effect that nobody had written. Each has a test now that mentions it.
#[test]
fn every_effect_is_held_by_a_test() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut texts = BTreeMap::new();
    for line in include_str!("../fields.tsv").lines() {
        let row: Vec<_> = line.split('\t').collect();
        if row[2] != "effect" {
            continue;
        }
        let (file, test) = row[3].split_once("::").unwrap();
        let read = || std::fs::read_to_string(crates.join(file)).unwrap_or_default();
        let text = texts.entry(file.to_owned()).or_insert_with(read);
        let snake = row[1].chars().map(|c| match c.is_ascii_uppercase() {
            true => format!("_{}", c.to_ascii_lowercase()),
            false => c.to_string(),
        });
        let snake: String = snake.collect();
        assert!(text.contains(&format!("fn {test}(")), "there is no test {test} in {file}: {line}");
        assert!(text.contains(row[1]) || text.contains(&snake), "{file} does not mention the field: {line}");
    }
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
