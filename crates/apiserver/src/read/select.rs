//! Label and field selectors of a request, evaluated on headers.

use evenkeel_schema::json::Value;
use evenkeel_schema::selector::{FieldSelector, LabelSelector};

use crate::status::{Result, Status};
use crate::{Header, ResourceInfo, field_selectors};

/// The parsed selectors for one resource.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    field: Field,
    equals: bool,
    value: String,
}

/// Where a field's value is found.
#[derive(Clone, Debug)]
enum Field {
    Name,
    Namespace,
    /// At this index in the header.
    Header(usize),
    /// A selectable field of a custom resource. The header does not contain it, because a CRD can change its
    /// selectable fields without a write to the object; the object must be parsed.
    Custom(Vec<String>),
}

impl Selection {
    /// Parses both selectors; fails if a field is not selectable for the kind.
    pub(crate) fn parse(info: &ResourceInfo, labels: &str, fields: &str) -> Result<Self> {
        let labels = LabelSelector::parse(labels).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(fields).map_err(Status::bad_request)?;
        let fields = fields.requirements().iter().map(|it| {
            Ok(Term { field: field(info, &it.field)?, equals: it.equals, value: it.value.clone() })
        });
        Ok(Self { labels, fields: fields.collect::<Result<_>>()? })
    }

    /// Whether the selectors match every object.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }

    /// The name, if the field selector demands a single one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.exact(|field| matches!(field, Field::Name))
    }

    /// The namespace, if the field selector demands a single one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.exact(|field| matches!(field, Field::Namespace))
    }

    fn exact(&self, is: impl Fn(&Field) -> bool) -> Option<&str> {
        self.fields.iter().find(|it| it.equals && is(&it.field)).map(|it| it.value.as_str())
    }

    /// Restricts the selection to the object with this name.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        self.fields.push(Term { field: Field::Name, equals: true, value: name.to_owned() });
        self
    }

    /// Whether the selectors use only names and namespaces, which no conversion changes.
    pub(crate) fn is_by_name(&self) -> bool {
        let by_name = |term: &Term| matches!(term.field, Field::Name | Field::Namespace);
        self.labels.is_everything() && self.fields.iter().all(by_name)
    }

    /// Whether name and namespace of an object match.
    pub(crate) fn matches_name(&self, header: &Header) -> bool {
        let by_name = self.fields.iter().filter(|it| matches!(it.field, Field::Name | Field::Namespace));
        by_name.into_iter().all(|term| term.matches(header, &[]))
    }

    /// Whether an object matches.
    pub(crate) fn matches(&self, header: &Header, bytes: &[u8]) -> bool {
        self.fields.iter().all(|term| term.matches(header, bytes))
            && (self.labels.is_everything() || self.labels.matches(|key| header.label(key)))
    }
}

impl Term {
    fn matches(&self, header: &Header, bytes: &[u8]) -> bool {
        let equal = match &self.field {
            Field::Name => *header.name == *self.value,
            Field::Namespace => *header.namespace == *self.value,
            Field::Header(at) => header.fields.get(*at).is_some_and(|it| **it == *self.value),
            Field::Custom(path) => custom_value(bytes, path) == self.value,
        };
        equal == self.equals
    }
}

fn custom_value(bytes: &[u8], path: &[String]) -> String {
    // An object that cannot be parsed has no fields; the code that encodes it reports the damage.
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return String::new() };
    let found = path.iter().try_fold(&object, |value, key| value.get(key));
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone().to_string(),
        Some(other) => other.to_string(),
    }
}

fn field(info: &ResourceInfo, label: &str) -> Result<Field> {
    let (group, stored) = match info.group.as_str() {
        "events.k8s.io" => ("", field_selectors::event_label(label)),
        group => (group, Some(label)),
    };
    match stored {
        Some("metadata.name") => return Ok(Field::Name),
        Some("metadata.namespace") if field_selectors::is_selectable_by_namespace(group, &info.kind) => {
            return Ok(Field::Namespace);
        }
        _ => {}
    }
    if let Some(custom) = &info.custom {
        return custom_field(&custom.version, label)
            .ok_or_else(|| Status::bad_request(format!("field label not supported: {label}")));
    }
    let at = stored.and_then(|stored| field_selectors::position(group, &info.kind, stored));
    at.map(Field::Header)
        .ok_or_else(|| Status::bad_request(field_selectors::refusal(group, &info.kind, label)))
}

/// A field that the CRD's version lists in `selectableFields`.
fn custom_field(version: &Value, label: &str) -> Option<Field> {
    let path = format!(".{label}");
    let listed = version["selectableFields"].as_array()?.iter().any(|it| it["jsonPath"] == *path);
    listed.then(|| Field::Custom(label.split('.').map(str::to_owned).collect()))
}
