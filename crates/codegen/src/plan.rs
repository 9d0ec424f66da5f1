//! Plans the types for the schema of one version.
//!
//! Equal schemas share a type: definitions repeat the same selectors, references and pod specs at many places.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::names::{Scope, TAKEN};

/// The pattern that controller-gen writes for quantities.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Keywords that belong to one use of a type, not to the type itself.
pub(crate) const OF_THE_USE: [&str; 5] = ["description", "default", "nullable", "example", "title"];

/// The Rust type of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    Time,
    Bytes,
    IntOrString,
    Quantity,
    /// Any JSON value.
    Any,
    List(Box<Type>),
    Map(Box<Type>),
    /// A struct or an enum, by its index in [`Plan::items`].
    Named(usize),
}

/// A struct or an enum.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// The schema, without the keywords that belong to a use.
    pub(crate) node: Value,
    pub(crate) shape: Shape,
    /// The description, if it is the same for all uses.
    pub(crate) description: Option<String>,
    parent: Option<usize>,
    /// The names of the fields that have this type, in order of first use.
    uses: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Shape {
    Struct(Vec<Field>),
    /// The variants of an enum, with their values.
    Enum(Vec<(String, String)>),
    /// A struct around one value, for a definition whose spec is not an object.
    Wrapper(Type),
}

/// A field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) property: String,
    pub(crate) name: String,
    pub(crate) node: Value,
    pub(crate) value_type: Type,
    pub(crate) required: bool,
}

impl Field {
    /// Whether the field's type is an `Option`.
    pub(crate) fn is_option(&self) -> bool {
        !self.required || is(&self.node, "nullable")
    }
}

/// The types of one version, parents before their parts.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
    by_schema: BTreeMap<String, usize>,
    prefix: String,
}

impl Plan {
    /// Makes an empty plan. All type names begin with `prefix`, which is the kind.
    pub(crate) fn new(prefix: String) -> Self {
        Self { items: Vec::new(), by_schema: BTreeMap::new(), prefix }
    }

    /// Plans the type that carries kube's derive, which is always a struct of its own. If the object has no `spec`, it is
    /// `flat`: a struct with the object's other fields, which may be none.
    pub(crate) fn spec(&mut self, node: &Value, flat: bool) -> usize {
        let own = own(node);
        let index = self.items.len();
        let is_struct = flat || !map(&own, "properties").is_empty() || is_marker(&own);
        self.push(own.clone(), "spec", None, node);
        self.items[index].shape = if is_struct {
            Shape::Struct(self.fields(&own, index))
        } else {
            Shape::Wrapper(self.type_of(&own, "value", Some(index)))
        };
        index
    }

    /// Plans the type of a node: the value of the field `name` of the item `parent`.
    pub(crate) fn type_of(&mut self, node: &Value, name: &str, parent: Option<usize>) -> Type {
        if is(node, "x-kubernetes-int-or-string") {
            return if text(node, "pattern") == QUANTITY { Type::Quantity } else { Type::IntOrString };
        }
        match text(node, "type") {
            "string" => self.string(node, name, parent),
            "integer" if text(node, "format") == "int32" => Type::Int32,
            "integer" => Type::Int64,
            "number" => Type::Float,
            "boolean" => Type::Bool,
            "array" => Type::List(Box::new(self.part(node.get("items"), name, parent))),
            "object" => self.object(node, name, parent),
            _ => Type::Any,
        }
    }

    /// Plans the type of a list's items or a map's values. If they may be null, the type is any JSON value.
    fn part(&mut self, node: Option<&Value>, name: &str, parent: Option<usize>) -> Type {
        match node {
            Some(node @ Value::Object(_)) if !is(node, "nullable") => self.type_of(node, name, parent),
            _ => Type::Any,
        }
    }

    fn string(&mut self, node: &Value, name: &str, parent: Option<usize>) -> Type {
        let values: Vec<&str> =
            list(node, "enum").iter().filter(|value| !value.is_null()).filter_map(Value::as_str).collect();
        let all_text = list(node, "enum").iter().all(|value| value.is_string() || value.is_null());
        match text(node, "format") {
            _ if !values.is_empty() && all_text => {}
            "date-time" => return Type::Time,
            "byte" => return Type::Bytes,
            _ => return Type::String,
        }
        let schema = serde_json::json!({"type": "string", "enum": values});
        self.named(schema, name, parent, node, |_, own, _| {
            let mut scope = Scope::default();
            let values = list(own, "enum").iter().filter_map(Value::as_str);
            Shape::Enum(values.map(|value| (scope.give_variant(value), value.to_owned())).collect())
        })
    }

    fn object(&mut self, node: &Value, name: &str, parent: Option<usize>) -> Type {
        if !map(node, "properties").is_empty() || is_marker(node) {
            return self.named(own(node), name, parent, node, |plan, own, index| {
                Shape::Struct(plan.fields(own, index))
            });
        }
        if is(node, "x-kubernetes-embedded-resource") {
            return Type::Any;
        }
        Type::Map(Box::new(self.part(node.get("additionalProperties"), name, parent)))
    }

    fn fields(&mut self, own: &Value, index: usize) -> Vec<Field> {
        let required: Vec<&str> = list(own, "required").iter().filter_map(Value::as_str).collect();
        let mut scope = Scope::default();
        let fields = map(own, "properties").into_iter().map(|(property, node)| Field {
            name: scope.give_snake(property),
            value_type: self.type_of(node, property, Some(index)),
            required: required.contains(&property.as_str()),
            property: property.clone(),
            node: node.clone(),
        });
        fields.collect()
    }

    /// Returns the type for this schema: an existing one, or a new one with the shape that `shape` plans.
    fn named(
        &mut self,
        own: Value,
        name: &str,
        parent: Option<usize>,
        node: &Value,
        shape: impl FnOnce(&mut Self, &Value, usize) -> Shape,
    ) -> Type {
        let key = own.to_string();
        if let Some(&index) = self.by_schema.get(&key) {
            let item = &mut self.items[index];
            item.uses.push(name.to_owned());
            if item.description.as_deref() != node.get("description").and_then(Value::as_str) {
                item.description = None;
            }
            return Type::Named(index);
        }
        let index = self.items.len();
        self.by_schema.insert(key, index);
        self.push(own.clone(), name, parent, node);
        self.items[index].shape = shape(self, &own, index);
        Type::Named(index)
    }

    fn push(&mut self, own: Value, name: &str, parent: Option<usize>, node: &Value) {
        self.items.push(Item {
            name: String::new(),
            node: own,
            shape: Shape::Struct(Vec::new()),
            description: node.get("description").and_then(Value::as_str).map(str::to_owned),
            parent,
            uses: vec![name.to_owned()],
        });
    }

    /// Names all types. If all fields of a type have one name, the type is named after it, otherwise after its first
    /// path.
    pub(crate) fn name_items(&mut self, taken: &[&str]) {
        let mut scope = Scope::with(&[TAKEN.as_slice(), taken].concat());
        for index in 0..self.items.len() {
            let item = &self.items[index];
            let last = item.uses.first().cloned().unwrap_or_default();
            let short = format!("{}{}", self.prefix, crate::names::pascal(&last));
            let shared = item.uses.len() > 1 && item.uses.iter().all(|name| *name == last);
            let above = item.parent.map_or(self.prefix.as_str(), |parent| self.items[parent].name.as_str());
            let wanted = if is_marker(&item.node) && item.uses.len() > 1 {
                format!("{}Empty", self.prefix)
            } else if shared && scope.is_free(&short) {
                short
            } else {
                format!("{above}{}", crate::names::pascal(&last))
            };
            self.items[index].name = scope.give_type(&wanted);
        }
    }

    /// Whether the type implements `Default`. Enums do not, because none of their values is an obvious default.
    pub(crate) fn has_default(&self, value_type: &Type) -> bool {
        match value_type {
            Type::Time => false,
            Type::Named(index) => match &self.items[*index].shape {
                Shape::Enum(_) => false,
                Shape::Wrapper(inner) => self.has_default(inner),
                Shape::Struct(fields) => {
                    fields.iter().all(|field| field.is_option() || self.has_default(&field.value_type))
                }
            },
            _ => true,
        }
    }

    /// Writes the type as Rust code.
    pub(crate) fn text(&self, value_type: &Type) -> String {
        self.spell(value_type, &|value_type| match value_type {
            Type::Time => "Time",
            Type::Bytes => "ByteString",
            Type::IntOrString => "IntOrString",
            _ => "Quantity",
        })
    }

    /// Writes the type whose schema is used in place of this type's. k8s-openapi's types implement `JsonSchema` only
    /// with a feature that takes long to compile.
    pub(crate) fn stand_in(&self, value_type: &Type) -> String {
        self.spell(value_type, &|value_type| match value_type {
            Type::Time | Type::Bytes => "String",
            _ => "Value",
        })
    }

    /// Writes the type as Rust code; `openapi` names k8s-openapi's types.
    fn spell(&self, value_type: &Type, openapi: &dyn Fn(&Type) -> &'static str) -> String {
        match value_type {
            Type::String => "String".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int32 => "i32".to_owned(),
            Type::Int64 => "i64".to_owned(),
            Type::Float => "f64".to_owned(),
            Type::Time | Type::Bytes | Type::IntOrString | Type::Quantity => openapi(value_type).to_owned(),
            Type::Any => "Value".to_owned(),
            Type::List(items) => format!("Vec<{}>", self.spell(items, openapi)),
            Type::Map(values) => format!("BTreeMap<String, {}>", self.spell(values, openapi)),
            Type::Named(index) => self.items[*index].name.clone(),
        }
    }
}

/// Whether a struct for this schema also keeps fields that the schema does not name.
pub(crate) fn keeps_more(node: &Value) -> bool {
    let named = |name: &str| map(node, "properties").iter().any(|(property, _)| *property == name);
    let embedded = is(node, "x-kubernetes-embedded-resource")
        && !(named("apiVersion") && named("kind") && named("metadata"));
    embedded || is(node, "x-kubernetes-preserve-unknown-fields")
}

/// Whether the schema is an object without content, of which only the presence matters.
fn is_marker(node: &Value) -> bool {
    let open =
        ["additionalProperties", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"];
    text(node, "type") == "object"
        && map(node, "properties").is_empty()
        && open.iter().all(|keyword| node.get(*keyword).is_none())
}

fn own(node: &Value) -> Value {
    let mut own = node.clone();
    if let Some(fields) = own.as_object_mut() {
        OF_THE_USE.iter().for_each(|keyword| {
            fields.remove(*keyword);
        });
    }
    own
}

pub(crate) fn is(node: &Value, keyword: &str) -> bool {
    node.get(keyword) == Some(&Value::Bool(true))
}

pub(crate) fn text<'a>(node: &'a Value, keyword: &str) -> &'a str {
    node.get(keyword).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(node: &'a Value, keyword: &str) -> &'a [Value] {
    node.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of a map, sorted by name.
pub(crate) fn map<'a>(node: &'a Value, keyword: &str) -> Vec<(&'a String, &'a Value)> {
    let mut entries: Vec<_> = node.get(keyword).and_then(Value::as_object).into_iter().flatten().collect();
    entries.sort_by_key(|(name, _)| name.as_str());
    entries
}
