//! The types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::escape;

/// The struct type of an apply configuration, which a mutation lays over the object; the types of its fields are named
/// beneath it.
pub(crate) const OBJECT: &str = "Object";
/// The struct type of one operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// A type of the language, as the checker sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// A value of any type, checked at run time.
    Dyn,
    /// The type of a node for which an issue was already reported.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
    /// `list`, with the type of its items.
    List(Arc<Type>),
    /// `map`, with the types of its keys and values.
    Map(Arc<(Type, Type)>),
    /// `optional_type`, with the type of its value.
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A type of a library, by its name.
    Opaque(Opaque),
    /// An object with known fields.
    Object(Arc<Declaration>),
    /// A type parameter that is not bound yet.
    Param(u32),
}

/// The types that Kubernetes' libraries add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the type of its name")]
pub enum Opaque {
    Url,
    Quantity,
    Ip,
    Cidr,
    Semver,
    Format,
    /// The `authorizer` variable of admission policies; rules of custom resources have no such variable.
    Authorizer,
    PathCheck,
    GroupCheck,
    ResourceCheck,
    Decision,
}

impl Opaque {
    pub(crate) const ALL: [Opaque; 11] = [
        Opaque::Url,
        Opaque::Quantity,
        Opaque::Ip,
        Opaque::Cidr,
        Opaque::Semver,
        Opaque::Format,
        Opaque::Authorizer,
        Opaque::PathCheck,
        Opaque::GroupCheck,
        Opaque::ResourceCheck,
        Opaque::Decision,
    ];

    /// The name that expressions and messages use.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Opaque::Url => "kubernetes.URL",
            Opaque::Quantity => "kubernetes.Quantity",
            Opaque::Ip => "net.IP",
            Opaque::Cidr => "net.CIDR",
            Opaque::Semver => "kubernetes.Semver",
            Opaque::Format => "kubernetes.NamedFormat",
            Opaque::Authorizer => "kubernetes.authorization.Authorizer",
            Opaque::PathCheck => "kubernetes.authorization.PathCheck",
            Opaque::GroupCheck => "kubernetes.authorization.GroupCheck",
            Opaque::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            Opaque::Decision => "kubernetes.authorization.Decision",
        }
    }
}

impl Type {
    /// The type of a list of such items.
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(of))
    }

    /// The type of a map with such keys and values.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// The type of an optional that holds such a value.
    pub fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of))
    }

    /// The struct type of an apply configuration, which a mutation lays over the object.
    pub fn apply_configuration() -> Type {
        Type::structure(OBJECT)
    }

    /// The struct type of one operation of a JSON patch.
    pub fn json_patch() -> Type {
        Type::structure(JSON_PATCH)
    }

    /// The type of a struct that expressions make, by its name.
    pub(crate) fn structure(name: &str) -> Type {
        let shape = Shape::Object(BTreeMap::new());
        Type::Object(Arc::new(Declaration { shape, name: name.to_owned(), elements_max: 0, bytes_min: 0 }))
    }

    pub(crate) fn type_of(of: Type) -> Type {
        Type::Type(Arc::new(of))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// The type arguments: the item type of a list, the key and value types of a map, and so on.
    pub(crate) fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(of) | Type::Optional(of) | Type::Type(of) => vec![of],
            Type::Map(of) => vec![&of.0, &of.1],
            _ => Vec::new(),
        }
    }

    /// The name of the type without its parameters, which is also what `type(x)` prints.
    pub(crate) fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Error => "!error!",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Optional(_) => "optional_type",
            Type::Type(_) => "type",
            Type::Opaque(opaque) => opaque.name(),
            Type::Object(object) => &object.name,
            Type::Param(_) => "_var",
        }
    }

    /// The name of the type at run time, where timestamps and durations have their long names.
    pub fn runtime_name(&self) -> &str {
        match self {
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::Null => "null_type",
            other => other.name(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Type::Optional(of) => write!(f, "optional_type({of})"),
            Type::Type(of) => write!(f, "type({of})"),
            Type::Param(id) => write!(f, "_var{id}"),
            other => f.write_str(other.name()),
        }
    }
}

/// The declaration of a value, made from its schema: its type, and how large it can be.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// The shape of the value.
    pub shape: Shape,
    /// The name of an object's type, which only messages show.
    pub name: String,
    /// The most items, entries or characters that the value can have; zero for a value without a size.
    pub elements_max: u64,
    /// The fewest bytes that the value needs in JSON.
    pub bytes_min: u64,
}

/// The shape of a value, as its schema declares it.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A value of a type without parts.
    Simple(Type),
    /// A list, with the declaration of its items.
    List(Arc<Declaration>),
    /// A map from strings.
    Map(Arc<Declaration>),
    /// An object with named fields.
    Object(BTreeMap<String, Arc<Declaration>>),
}

impl Declaration {
    /// The type of the value.
    pub fn cel_type(self: &Arc<Self>) -> Type {
        match &self.shape {
            Shape::Simple(cel_type) => cel_type.clone(),
            Shape::List(items) => Type::list(items.cel_type()),
            Shape::Map(values) => Type::map(Type::String, values.cel_type()),
            Shape::Object(_) => Type::Object(self.clone()),
        }
    }

    /// The declaration of a list's items or a map's values.
    pub fn element(&self) -> Option<&Arc<Declaration>> {
        match &self.shape {
            Shape::List(of) | Shape::Map(of) => Some(of),
            _ => None,
        }
    }

    /// A field of an object, by its name in expressions. After a dot, a reserved word may stand for its escaped form.
    pub fn field(&self, name: &str) -> Option<&Arc<Declaration>> {
        match &self.shape {
            Shape::Object(fields) => {
                let escaped = || escape::escape(name).filter(|_| escape::is_reserved(name));
                fields.get(name).or_else(|| fields.get(&escaped()?))
            }
            _ => None,
        }
    }
}
