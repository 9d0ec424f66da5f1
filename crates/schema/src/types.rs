//! The one schema type, for built-in kinds and for custom resources.
//!
//! A built-in type is parsed on first use, from compact facts that are compiled in, and kept for the life of the process.
//! References to other types are resolved on first use, too. So a process pays only for the types that it uses.

mod facts;
mod openapi;

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

pub use facts::{builtin, builtin_type, builtin_type_name, type_names};

use crate::json::Value;

/// Text that is compiled in for built-in types and owned for custom resources.
pub type Text = Cow<'static, str>;

/// Describes a value: its type and limits, and how it is merged.
///
/// A node that refers to a named type has its own default and merge rules beside the reference. The methods follow the
/// reference; the fields are those of the node itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// The named type that describes this value; only in built-in types.
    pub reference: Option<Reference>,
    /// The JSON type; `None` allows any value.
    pub value_type: Option<Type>,
    /// The OpenAPI format, or an empty string.
    pub format: Text,
    /// The named fields of an object.
    pub properties: Properties,
    /// The schema of the items of an array.
    pub items: Option<Box<Schema>>,
    /// The values that an object may have beside its named fields (`additionalProperties`).
    pub additional: Additional,
    /// How server-side apply merges a list.
    pub list_type: Option<ListType>,
    /// The fields that identify an item of a [`ListType::Map`].
    pub list_map_keys: Vec<Text>,
    /// How server-side apply merges an object.
    pub map_type: Option<MapType>,
    /// How a strategic merge patch treats this field.
    pub patch_strategy: PatchStrategy,
    /// The field by which a strategic merge patch identifies an item.
    pub patch_merge_key: Option<Text>,
    /// The default of the field.
    pub default: Option<Value>,
    /// The fields that an object must have.
    pub required: Vec<Text>,
    /// The allowed values; empty if all are allowed.
    pub enumeration: Vec<Value>,
    /// Whether null is a value. Otherwise, null means that the field is absent.
    pub nullable: bool,
    /// Whether fields without a schema are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown_fields: bool,
    /// Whether the value is a whole Kubernetes object (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// Whether the value is an integer or a string (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// Limits on numbers, strings, lists and maps. Built-in types have none: their validation is code.
    pub limits: Option<Box<Limits>>,
    /// `allOf`, `anyOf`, `oneOf` and `not`.
    pub logic: Option<Box<Logic>>,
    /// CEL rules (`x-kubernetes-validations`).
    pub validations: Vec<Validation>,
    /// The kinds that this type describes.
    pub gvks: Vec<Gvk>,
    /// `x-kubernetes-unions`, which only the OpenAPI document needs.
    pub unions: Option<Value>,
}

/// A JSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// A JSON number without a fraction.
    Integer,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// The type with this OpenAPI name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The OpenAPI name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How server-side apply merges a list (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// As one value with one owner.
    Atomic,
    /// By value: each scalar has owners of its own.
    Set,
    /// By keys: each item has owners of its own.
    Map,
}

/// How server-side apply merges an object (`x-kubernetes-map-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    /// As one value with one owner.
    Atomic,
    /// By field: each field has owners of its own. This is the default.
    Granular,
}

/// How a strategic merge patch treats a field (`x-kubernetes-patch-strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Lists are merged by the merge key, or as sets of scalars.
    pub merge: bool,
    /// The value is replaced as a whole.
    pub replace: bool,
    /// The patch lists the fields to keep (`$retainKeys`).
    pub retain_keys: bool,
}

impl PatchStrategy {
    /// Whether the field has no patch strategy.
    pub fn is_unset(self) -> bool {
        self == Self::default()
    }
}

/// The values that an object may have beside its named fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Additional {
    /// The schema has no `additionalProperties`.
    #[default]
    Unset,
    /// `additionalProperties: true` or `false`.
    Allowed(bool),
    /// The object is a map whose values have this schema.
    Schema(Box<Schema>),
}

/// The named fields of an object, sorted by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Properties(Vec<(Text, Schema)>);

impl Properties {
    /// The schema of one field.
    pub fn get(&self, name: &str) -> Option<&Schema> {
        let at = self.0.binary_search_by(|(field, _)| field.as_ref().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// The schema of one field, for changes.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Schema> {
        let at = self.0.binary_search_by(|(field, _)| field.as_ref().cmp(name)).ok()?;
        Some(&mut self.0[at].1)
    }

    /// Adds or replaces a field.
    pub fn insert(&mut self, name: Text, schema: Schema) {
        match self.0.binary_search_by(|(field, _)| field.cmp(&name)) {
            Ok(at) => self.0[at].1 = schema,
            Err(at) => self.0.insert(at, (name, schema)),
        }
    }

    /// All fields, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Schema)> {
        self.0.iter().map(|(name, schema)| (name.as_ref(), schema))
    }

    /// Whether there are no named fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of named fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<(Text, Schema)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Text, Schema)>>(fields: I) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self(fields)
    }
}

/// Limits on a value.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each is the OpenAPI keyword of its name")]
pub struct Limits {
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<String>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
}

/// Logical combinations of schemas.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "each is the OpenAPI keyword of its name")]
pub struct Logic {
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
}

/// One CEL rule of a custom resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Validation {
    /// The expression that must be true.
    pub rule: String,
    /// The message if the rule fails.
    pub message: String,
    /// An expression that evaluates to the message.
    pub message_expression: String,
    /// The reason of the cause; empty means `FieldValueInvalid`.
    pub reason: String,
    /// The field that a failure reports, relative to the value of the rule.
    pub field_path: String,
    /// Whether a rule on `oldSelf` also runs on creation.
    pub optional_old_self: Option<bool>,
}

/// A kind with its group and version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the three parts of the name")]
pub struct Gvk {
    pub group: Text,
    pub version: Text,
    pub kind: Text,
}

/// The name of a built-in type, and the type once it was resolved.
#[derive(Clone)]
pub struct Reference {
    name: Text,
    target: OnceLock<&'static Schema>,
}

impl Reference {
    /// Refers to a built-in type by its full name.
    pub fn new(name: impl Into<Text>) -> Self {
        Self { name: name.into(), target: OnceLock::new() }
    }

    /// The full name of the type.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn target(&self) -> &'static Schema {
        self.target.get_or_init(|| builtin_type(&self.name).unwrap_or(any()))
    }
}

// Only the name is printed and compared: a type may refer to itself.
impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({})", self.name)
    }
}

impl PartialEq for Reference {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The schema that allows any value.
pub fn any() -> &'static Schema {
    static ANY: OnceLock<Schema> = OnceLock::new();
    ANY.get_or_init(Schema::default)
}

impl Schema {
    /// A schema of a JSON type.
    pub fn of(value_type: Type) -> Self {
        Self { value_type: Some(value_type), ..Self::default() }
    }

    /// The node itself, or the named type that it refers to.
    pub fn resolve(&self) -> &Schema {
        self.reference.as_ref().map_or(self, |reference| reference.target())
    }

    /// The full name of the built-in type that the node refers to.
    pub fn type_name(&self) -> Option<&str> {
        self.reference.as_ref().map(Reference::name)
    }

    /// The JSON type, through the reference.
    pub fn value_type(&self) -> Option<Type> {
        self.resolve().value_type
    }

    /// The schema of a field: named, or that of a map's values.
    ///
    /// ```
    /// use evenkeel_schema::types::{builtin, Type};
    /// let pod = builtin("", "v1", "Pod").unwrap();
    /// let grace = pod.field("spec").unwrap().field("terminationGracePeriodSeconds").unwrap();
    /// assert_eq!(grace.value_type(), Some(Type::Integer));
    /// assert!(pod.field("spce").is_none());
    /// ```
    pub fn field(&self, name: &str) -> Option<&Schema> {
        let schema = self.resolve();
        schema.properties.get(name).or(match &schema.additional {
            Additional::Schema(values) => Some(values),
            _ => None,
        })
    }

    /// The named fields, through the reference.
    pub fn fields(&self) -> &Properties {
        &self.resolve().properties
    }

    /// The schema of the items of a list, through the reference.
    pub fn items(&self) -> Option<&Schema> {
        self.resolve().items.as_deref()
    }

    /// The schema of a map's values, through the reference.
    pub fn values(&self) -> Option<&Schema> {
        match &self.resolve().additional {
            Additional::Schema(values) => Some(values),
            _ => None,
        }
    }

    /// How server-side apply merges the list: as the node says, otherwise as its type says.
    pub fn list_type(&self) -> Option<ListType> {
        self.list_type.or_else(|| self.resolve().list_type)
    }

    /// The key fields of the list's items.
    pub fn list_map_keys(&self) -> &[Text] {
        if self.list_map_keys.is_empty() { &self.resolve().list_map_keys } else { &self.list_map_keys }
    }

    /// How server-side apply merges the object: as the node says, otherwise as its type says.
    pub fn map_type(&self) -> Option<MapType> {
        self.map_type.or_else(|| self.resolve().map_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_rules_stand_beside_the_reference() {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let spec = deployment.field("spec").unwrap();
        let strategy = spec.field("strategy").unwrap();
        assert!(strategy.patch_strategy.retain_keys);
        assert_eq!(strategy.value_type(), Some(Type::Object));

        let containers = spec.field("template").unwrap().field("spec").unwrap().field("containers").unwrap();
        assert_eq!(containers.list_type(), Some(ListType::Map));
        assert_eq!(containers.list_map_keys(), ["name"]);
        assert_eq!(containers.patch_merge_key.as_deref(), Some("name"));
        let ports = containers.items().unwrap().field("ports").unwrap();
        assert_eq!(ports.list_map_keys(), ["containerPort", "protocol"]);
        assert_eq!(ports.items().unwrap().field("protocol").unwrap().default, Some(Value::from("TCP")));
    }

    #[test]
    fn a_type_may_refer_to_itself() {
        let crd =
            builtin_type("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
        assert!(std::ptr::eq(crd.resolve(), crd.field("not").unwrap().resolve()));
    }

    #[test]
    fn every_type_parses_and_every_reference_leads_somewhere() {
        fn follow(schema: &Schema) {
            if let Some(name) = schema.type_name() {
                assert!(builtin_type(name).is_some(), "{name}");
            }
            schema.properties.iter().for_each(|(_, field)| follow(field));
            schema.items.iter().for_each(|items| follow(items));
            if let Additional::Schema(values) = &schema.additional {
                follow(values);
            }
        }
        assert_eq!(type_names().count(), 584);
        type_names().for_each(|name| follow(builtin_type(name).unwrap()));
    }

    #[test]
    fn every_resource_has_a_schema() {
        for resource in crate::api_resources::resources() {
            assert!(builtin(resource.group, resource.version, resource.kind).is_some(), "{}", resource.kind);
        }
    }
}
