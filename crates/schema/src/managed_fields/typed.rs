//! The types that a schema gives to values for merging: scalar, list or map, atomic or granular.

use super::items::Key;
use crate::fieldset::PathElement;
use crate::json::{Map, Value};
use crate::types::{self, Additional, ListType, MapType, Schema, Type};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// The type information at a field, before its value is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node<'s> {
    /// The field has a schema.
    Typed {
        schema: &'s Schema,
        /// Whether a parent allows fields without a schema here.
        preserve: bool,
        /// Whether the value is a whole object, with `apiVersion`, `kind` and `metadata` that the schema need not list.
        object: bool,
    },
    /// The field has no schema: maps are granular, lists atomic.
    Deduced,
    /// The field has no schema, and its value is atomic.
    Untyped,
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Atom<'s> {
    Map(MapView<'s>),
    Scalar(Scalar),
    List(ListView<'s>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MapView<'s> {
    node: Node<'s>,
    pub(super) atomic: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListView<'s> {
    node: Node<'s>,
    /// Whether the list is merged as one value.
    pub(super) atomic: bool,
    keys: Keys<'s>,
}

#[derive(Debug, Clone, Copy)]
enum Keys<'s> {
    /// The list is a set of scalars.
    Set,
    Named(&'s [types::Text]),
    /// The key is the merge key of strategic merge patch, because no list type is declared.
    One(&'s types::Text),
}

impl<'s> Node<'s> {
    /// The node of a whole object.
    pub(super) fn root(schema: &'s Schema) -> Self {
        Self::Typed { schema, preserve: schema.resolve().preserve_unknown_fields, object: true }
    }

    fn child(schema: &'s Schema, preserve: bool) -> Self {
        if schema.type_name() == Some(RAW_EXTENSION) {
            return Self::Untyped;
        }
        let own = schema.preserve_unknown_fields;
        // A named type does not inherit `preserve` from the field that refers to it.
        let preserve = own || (preserve && schema.reference.is_none());
        Self::Typed { schema, preserve, object: schema.embedded_resource }
    }

    /// The type of a value at this node. A value of a wrong type gets the declared type.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'s> {
        let Self::Typed { schema, .. } = self else { return self.any(value) };
        match schema.value_type() {
            Some(Type::Object) => Atom::Map(self.map()),
            Some(Type::Array) => Atom::List(self.list()),
            Some(kind) => Atom::Scalar(scalar(kind, &schema.resolve().format)),
            // This is a quantity, which is one of several scalars.
            None if schema.resolve().logic.is_some() && schema.reference.is_some() => {
                Atom::Scalar(Scalar::Any)
            }
            None => self.any(value),
        }
    }

    /// The declared type; a map if several types are possible.
    pub(super) fn declared(self) -> Atom<'s> {
        self.atom(None)
    }

    /// The node as a list; `None` if its value cannot be one.
    pub(super) fn as_list(self) -> Option<ListView<'s>> {
        match self {
            Self::Typed { schema, .. } if !matches!(schema.value_type(), None | Some(Type::Array)) => None,
            _ => Some(self.list()),
        }
    }

    fn any(self, value: Option<&Value>) -> Atom<'s> {
        match value {
            Some(Value::Array(_)) => Atom::List(self.list()),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Atom::Scalar(Scalar::Any),
            _ => Atom::Map(self.map()),
        }
    }

    fn map(self) -> MapView<'s> {
        let atomic = match self {
            Self::Typed { schema, .. } => schema.map_type() == Some(MapType::Atomic),
            Self::Deduced => false,
            Self::Untyped => true,
        };
        MapView { node: self, atomic }
    }

    fn list(self) -> ListView<'s> {
        let whole = ListView { node: self, atomic: true, keys: Keys::Set };
        let Self::Typed { schema, .. } = self else { return whole };
        match schema.list_type() {
            Some(ListType::Atomic) => whole,
            Some(ListType::Set) => ListView { atomic: false, ..whole },
            Some(ListType::Map) => {
                ListView { node: self, atomic: false, keys: Keys::Named(schema.list_map_keys()) }
            }
            None if schema.patch_strategy.merge => {
                let keys = schema.patch_merge_key.as_ref().map_or(Keys::Set, Keys::One);
                ListView { node: self, atomic: false, keys }
            }
            None => whole,
        }
    }
}

fn scalar(kind: Type, format: &str) -> Scalar {
    match kind {
        Type::Integer | Type::Number => Scalar::Numeric,
        Type::Boolean => Scalar::Boolean,
        Type::String if format.is_empty() || format == "byte" => Scalar::String,
        _ => Scalar::Any,
    }
}

impl<'s> MapView<'s> {
    /// The node of a field, and whether the schema lists it by name; `None` if the field is unknown.
    pub(super) fn field(&self, name: &str) -> Option<(Node<'s>, bool)> {
        let (schema, preserve, object) = match self.node {
            Node::Deduced => return Some((Node::Deduced, false)),
            Node::Untyped => return Some((Node::Untyped, false)),
            Node::Typed { schema, preserve, object } => (schema.resolve(), preserve, object),
        };
        if object && let Some(field) = type_meta(name) {
            return Some((Node::child(field, false), true));
        }
        if let Some(field) = schema.properties.get(name) {
            return Some((Node::child(field, preserve), true));
        }
        let other = match &schema.additional {
            Additional::Schema(values) => Some(Node::child(values, preserve)),
            Additional::Allowed(true) => Some(Node::Deduced),
            Additional::Allowed(false) => None,
            Additional::Unset => {
                (preserve || (schema.properties.is_empty() && !object)).then_some(Node::Deduced)
            }
        };
        other.map(|node| (node, false))
    }

    /// Whether the fields have no schema.
    pub(super) fn is_deduced(&self) -> bool {
        match self.node {
            Node::Deduced => true,
            Node::Untyped => false,
            Node::Typed { schema, preserve, object } => {
                let schema = schema.resolve();
                schema.properties.is_empty()
                    && !object
                    && match &schema.additional {
                        Additional::Unset => true,
                        Additional::Allowed(allowed) => *allowed || preserve,
                        Additional::Schema(_) => false,
                    }
            }
        }
    }
}

/// The fields that every object has.
fn type_meta(name: &str) -> Option<&'static Schema> {
    static META: std::sync::OnceLock<(Schema, Schema)> = std::sync::OnceLock::new();
    let (meta, text) = META.get_or_init(|| {
        let meta = Schema { reference: Some(types::Reference::new(OBJECT_META)), ..Schema::default() };
        (meta, Schema::of(Type::String))
    });
    match name {
        "metadata" => Some(meta),
        "apiVersion" | "kind" => Some(text),
        _ => None,
    }
}

impl<'s> ListView<'s> {
    /// The node of the items.
    pub(super) fn items(&self) -> Node<'s> {
        let Node::Typed { schema, preserve, .. } = self.node else { return Node::Untyped };
        schema.items().map_or(Node::Untyped, |items| Node::child(items, preserve))
    }

    /// The path element of an item.
    pub(super) fn element(&self, item: &Value) -> Result<PathElement, String> {
        Key::of(*self, item).map(Key::element)
    }

    /// Checks that an item can be in a list of type `map`.
    pub(super) fn check_keyed_item(&self, item: &Value) -> Result<(), String> {
        match item {
            _ if self.atomic => Err("invalid indexing of non-associative list".into()),
            Value::Object(_) => Ok(()),
            Value::Null => Err("associative list with keys may not have a null element".into()),
            _ => Err("associative list with keys may not have non-map elements".into()),
        }
    }

    /// Checks that an item can be in a list of type `set`.
    pub(super) fn check_set_item(&self, item: &Value) -> Result<(), String> {
        match item {
            _ if self.atomic => Err("invalid indexing of non-associative list".into()),
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            _ => Ok(()),
        }
    }

    /// The names of the key fields; `None` if the list is a set.
    pub(super) fn key_names(&self) -> Option<&'s [types::Text]> {
        match self.keys {
            Keys::Set => None,
            Keys::Named(names) => Some(names),
            Keys::One(name) => Some(std::slice::from_ref(name)),
        }
    }

    /// The default of a key field, which counts if an item omits the field.
    pub(super) fn key_default(&self, key: &str) -> Option<&'s Value> {
        let Node::Typed { schema, .. } = self.node else { return None };
        schema.items()?.fields().get(key)?.default.as_ref()
    }
}

/// The fields of a map; `None` for any other value.
pub(super) fn fields(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object)
}

/// The items of a list; empty for any other value.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
