use evenkeel_schema::json::json;

use super::*;
use crate::registry::CustomInfo;

fn options(include: Include) -> TableOptions {
    TableOptions { version: "v1", include, now: "2026-01-01T00:10:00Z".parse().unwrap() }
}

fn column(name: &str, kind: &str) -> Column {
    Column { name: name.into(), kind: kind.into(), ..Column::default() }
}

fn resource(group: &str, kind: &str, columns: Vec<Column>) -> ResourceInfo {
    ResourceInfo { group: group.into(), kind: kind.into(), columns, ..ResourceInfo::default() }
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []},
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}})
}

#[test]
fn a_plain_kind_shows_name_and_creation_time() {
    let info = resource("", "LimitRange", vec![column("Name", "string"), column("Created At", "date")]);
    let printer = Printer::of(&info);
    let table =
        printer.table(&[object("a")], json!({"resourceVersion": "7"}), true, options(Include::Metadata));
    assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(table["rows"][0]["cells"], json!(["a", "2026-01-01T00:00:00Z"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["rows"][0]["object"].get("spec"), None);
    assert_eq!(printer.table(&[], json!({}), true, options(Include::Metadata))["rows"], json!(null));
}

#[test]
fn later_events_have_no_headings() {
    let info = resource("", "ConfigMap", vec![column("Name", "string"), column("Data", "string")]);
    let printer = Printer::of(&info);
    let table = printer.table(&[object("a")], json!({}), false, options(Include::None));
    assert_eq!(table["columnDefinitions"], json!(null));
    assert_eq!(table["rows"][0]["object"], json!(null));
    assert_eq!(printer.table(&[], json!({}), true, options(Include::None))["rows"], json!([]));
}

#[test]
fn a_custom_resource_without_columns_shows_its_age() {
    let custom = CustomInfo::for_tests("things.example.com", json!({}));
    let info = ResourceInfo { custom: Some(custom.into()), ..resource("example.com", "Thing", vec![]) };
    let table = Printer::of(&info).table(&[object("a")], json!({}), true, options(Include::Object));
    assert_eq!(table["columnDefinitions"][1]["name"], "Age");
    assert_eq!(table["rows"][0]["cells"], json!(["a", "10m"]));
    assert_eq!(table["rows"][0]["object"], object("a"));
}

#[test]
fn flow_schemas_are_listed_as_they_match() {
    let info = ResourceInfo {
        plural: "flowschemas".into(),
        ..resource("flowcontrol.apiserver.k8s.io", "FlowSchema", vec![column("Name", "string")])
    };
    let with =
        |name, precedence| json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
    let table = Printer::of(&info).table(
        &[with("a", 9), with("c", 1), with("b", 1)],
        json!({}),
        true,
        options(Include::None),
    );
    let names: Vec<_> = (0..3).map(|row| table["rows"][row]["cells"][0].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "c", "a"]);
}

#[test]
fn include_object_is_one_of_three_words() {
    assert_eq!(Include::parse("").unwrap(), Include::Metadata);
    assert_eq!(
        Include::parse("Some").unwrap_err().message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Some\": \
         must be 'Metadata', 'Object', 'None', or empty"
    );
}
