//! The types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type of the language, as the checker sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Anything; checked when the rule runs.
    Dyn,
    /// The type of what is already known to be wrong.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Kind>),
    Map(Arc<(Kind, Kind)>),
    Optional(Arc<Kind>),
    /// The type of a type.
    Type(Arc<Kind>),
    /// A type of a library, by its name.
    Opaque(Opaque),
    /// An object with known fields.
    Object(Arc<Declaration>),
    /// A type that is not known yet.
    Param(u32),
}

/// The types that Kubernetes' libraries add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opaque {
    Url,
    Quantity,
    Ip,
    Cidr,
    Semver,
    Format,
    /// What policies ask whether a user may do something; rules of custom resources have none.
    Authorizer,
}

impl Opaque {
    pub(super) const ALL: [Opaque; 7] = [
        Opaque::Url,
        Opaque::Quantity,
        Opaque::Ip,
        Opaque::Cidr,
        Opaque::Semver,
        Opaque::Format,
        Opaque::Authorizer,
    ];

    /// The name that expressions and messages use.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Opaque::Url => "kubernetes.URL",
            Opaque::Quantity => "kubernetes.Quantity",
            Opaque::Ip => "net.IP",
            Opaque::Cidr => "net.CIDR",
            Opaque::Semver => "kubernetes.Semver",
            Opaque::Format => "kubernetes.NamedFormat",
            Opaque::Authorizer => "kubernetes.authorization.Authorizer",
        }
    }
}

impl Kind {
    pub(super) fn list(of: Kind) -> Kind {
        Kind::List(Arc::new(of))
    }

    pub(super) fn map(key: Kind, value: Kind) -> Kind {
        Kind::Map(Arc::new((key, value)))
    }

    pub(super) fn optional(of: Kind) -> Kind {
        Kind::Optional(Arc::new(of))
    }

    /// The type of a struct that expressions make, by its name.
    pub(super) fn structure(name: &str) -> Kind {
        let shape = Shape::Object(BTreeMap::new());
        Kind::Object(Arc::new(Declaration { shape, name: name.to_owned(), elements_max: 0, bytes_min: 0 }))
    }

    pub(super) fn type_of(of: Kind) -> Kind {
        Kind::Type(Arc::new(of))
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Kind::Dyn | Kind::Error)
    }

    /// The types that this one is made of.
    pub(super) fn parameters(&self) -> Vec<&Kind> {
        match self {
            Kind::List(of) | Kind::Optional(of) | Kind::Type(of) => vec![of],
            Kind::Map(of) => vec![&of.0, &of.1],
            _ => Vec::new(),
        }
    }

    /// The name of the type without its parameters, which is also what `type(x)` prints.
    pub(super) fn name(&self) -> &str {
        match self {
            Kind::Dyn => "dyn",
            Kind::Error => "!error!",
            Kind::Null => "null",
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Uint => "uint",
            Kind::Double => "double",
            Kind::String => "string",
            Kind::Bytes => "bytes",
            Kind::Timestamp => "timestamp",
            Kind::Duration => "duration",
            Kind::List(_) => "list",
            Kind::Map(_) => "map",
            Kind::Optional(_) => "optional_type",
            Kind::Type(_) => "type",
            Kind::Opaque(opaque) => opaque.name(),
            Kind::Object(object) => &object.name,
            Kind::Param(_) => "_var",
        }
    }

    /// The name of the type at run time, where timestamps and durations have their long names.
    pub(super) fn runtime_name(&self) -> &str {
        match self {
            Kind::Timestamp => "google.protobuf.Timestamp",
            Kind::Duration => "google.protobuf.Duration",
            Kind::Null => "null_type",
            other => other.name(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::List(of) => write!(f, "list({of})"),
            Kind::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Kind::Optional(of) => write!(f, "optional_type({of})"),
            Kind::Type(of) => write!(f, "type({of})"),
            Kind::Param(id) => write!(f, "_var{id}"),
            other => f.write_str(other.name()),
        }
    }
}

/// What is known of a value from its schema: its type, and how large it can be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Declaration {
    pub(super) shape: Shape,
    /// The name of an object's type, which only messages show.
    pub(super) name: String,
    /// The most items, entries or characters that the value can have; zero where that means nothing.
    pub(super) elements_max: u64,
    /// The fewest bytes that the value needs in JSON.
    pub(super) bytes_min: u64,
}

/// What a value is, as its schema says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// A value of this type that has no parts.
    Simple(Kind),
    List(Arc<Declaration>),
    /// A map from strings.
    Map(Arc<Declaration>),
    Object(BTreeMap<String, Arc<Declaration>>),
}

impl Declaration {
    /// The type of the value.
    pub(super) fn kind(self: &Arc<Self>) -> Kind {
        match &self.shape {
            Shape::Simple(kind) => kind.clone(),
            Shape::List(items) => Kind::list(items.kind()),
            Shape::Map(values) => Kind::map(Kind::String, values.kind()),
            Shape::Object(_) => Kind::Object(self.clone()),
        }
    }

    /// What a list or map holds.
    pub(super) fn element(&self) -> Option<&Arc<Declaration>> {
        match &self.shape {
            Shape::List(of) | Shape::Map(of) => Some(of),
            _ => None,
        }
    }

    /// A field of an object, by its name in expressions.
    pub(super) fn field(&self, name: &str) -> Option<&Arc<Declaration>> {
        match &self.shape {
            Shape::Object(fields) => fields.get(name),
            _ => None,
        }
    }
}
