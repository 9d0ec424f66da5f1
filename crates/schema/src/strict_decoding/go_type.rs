//! The names of the Go types of fields, for error messages.

use crate::types::{Schema, Type};

/// Type names, searched without an index because only error messages need them.
static NAMES: &str = include_str!("../../facts/go_names.txt");

/// The name of a field's type, if it is a named one; `steps` is the number of lists and maps to descend into first.
pub(super) fn named(full: &str, field: &str, steps: usize) -> Option<&'static str> {
    let full = full.strip_prefix("io.k8s.")?;
    let of_field = |line: &'static str| {
        line.strip_prefix(full)?.strip_prefix(' ')?.strip_prefix(field)?.strip_prefix(' ')
    };
    let name = NAMES.lines().find_map(of_field)?;
    (0..steps).try_fold(name, |name, _| match name.strip_prefix("[]") {
        Some(items) => Some(items),
        None => name.strip_prefix("map[").and_then(|rest| rest.split_once(']')).map(|(_, values)| values),
    })
}

/// The embedded structs that contain a field. JSON does not show them.
pub(super) fn parts(within: &str, field: &str) -> &'static [&'static str] {
    const DIRECT_VOLUME: [&str; 9] = [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let of_rule = matches!(field, "apiGroups" | "apiVersions" | "resources" | "scope");
    match (within, field) {
        ("PersistentVolumeClaim", "apiVersion" | "kind") => &["TypeMeta"],
        ("Volume", field) if field != "name" => &["VolumeSource"],
        ("PersistentVolumeSpec", field) if !DIRECT_VOLUME.contains(&field) => &["PersistentVolumeSource"],
        ("Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => &["ProbeHandler"],
        ("EphemeralContainer", field) if field != "targetContainerName" => &["EphemeralContainerCommon"],
        (
            "ConfigMapEnvSource"
            | "SecretEnvSource"
            | "ConfigMapKeySelector"
            | "SecretKeySelector"
            | "ConfigMapVolumeSource"
            | "ConfigMapProjection"
            | "SecretProjection",
            "name",
        ) => &["LocalObjectReference"],
        ("IngressRule", "http") => &["IngressRuleValue"],
        ("RuleWithOperations", _) if of_rule => &["Rule"],
        ("NamedRuleWithOperations", "operations") => &["RuleWithOperations"],
        ("NamedRuleWithOperations", _) if of_rule => &["RuleWithOperations", "Rule"],
        ("DeviceClaimConfiguration" | "DeviceClassConfiguration", "opaque") => &["DeviceConfiguration"],
        _ => &[],
    }
}

/// Types with their own decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Custom {
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// A schema of a definition, or a boolean or a list of schemas instead of it.
    SchemaOr {
        or_bool: bool,
    },
    /// Arbitrary JSON.
    Raw,
}

pub(super) fn custom(schema: &Schema) -> Option<Custom> {
    let name = schema.type_name()?;
    Some(match name.rsplit('.').next()? {
        "Quantity" => Custom::Quantity,
        "IntOrString" => Custom::IntOrString,
        "Time" => Custom::Time,
        "MicroTime" => Custom::MicroTime,
        "RawExtension" | "FieldsV1" => Custom::Raw,
        "JSONSchemaPropsOrArray" => Custom::SchemaOr { or_bool: false },
        "JSONSchemaPropsOrBool" => Custom::SchemaOr { or_bool: true },
        "JSON" | "JSONSchemaPropsOrStringArray" => Custom::Raw,
        _ => return None,
    })
}

/// The name of a struct without its package: `PodSpec`.
pub(super) fn struct_name(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

/// The Go type of a field: `int32`, `[]v1.Container`, `map[string]string`.
pub(super) fn go_type(schema: &Schema) -> String {
    if let Some(full) = schema.type_name() {
        let mut parts = full.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return format!("{package}.{name}");
    }
    if let Some(items) = schema.items() {
        return format!("[]{}", go_type(items));
    }
    if let Some(values) = schema.values() {
        return format!("map[string]{}", go_type(values));
    }
    scalar_type(schema).to_owned()
}

pub(super) fn scalar_type(schema: &Schema) -> &'static str {
    match (schema.value_type(), schema.format.as_ref()) {
        (Some(Type::Integer), "int64") => "int64",
        (Some(Type::Integer), _) => "int32",
        (Some(Type::Number), _) => "float64",
        (Some(Type::Boolean), _) => "bool",
        (Some(Type::String), "byte") => "[]uint8",
        (Some(Type::String), _) => "string",
        _ => "interface {}",
    }
}
