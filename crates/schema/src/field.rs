//! Field errors, with Kubernetes' messages.
//!
//! Every validation in this crate returns a list of [`FieldError`]s. The API server turns the list into the causes and the
//! message of a 422 response. Clients match on both, so their text is part of the API.

use evenkeel_scalars::go;
use std::fmt::{self, Display};

use crate::json::{Value, json};

/// The path of a field, kept as a linked list on the stack: it becomes text only if an error is reported.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    element: Element<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Element<'a> {
    /// The path of the object itself, which Kubernetes prints as `<nil>`.
    Root,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path { parent: None, element: Element::Root };

    /// A path that starts at the named field of the object.
    pub const fn new(name: &'a str) -> Self {
        Path { parent: None, element: Element::Name(name) }
    }

    /// The field `name` below this path.
    pub const fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), element: Element::Name(name) }
    }

    /// The element at `index` of the list at this path.
    pub const fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), element: Element::Index(index) }
    }

    /// The value at `key` of the map at this path.
    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), element: Element::Key(key) }
    }

    fn is_root(&self) -> bool {
        self.parent.is_none() && matches!(self.element, Element::Root)
    }

    fn elements(&self) -> Vec<Element<'a>> {
        let mut elements = vec![self.element];
        let mut next = self.parent;
        while let Some(path) = next {
            elements.push(path.element);
            next = path.parent;
        }
        elements.reverse();
        elements
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("<nil>");
        }
        let mut first = true;
        for element in self.elements() {
            match element {
                Element::Root => continue,
                Element::Name(name) if first => f.write_str(name)?,
                Element::Name(name) => write!(f, ".{name}")?,
                Element::Index(index) => write!(f, "[{index}]")?,
                Element::Key(key) => write!(f, "[{key}]")?,
            }
            first = false;
        }
        Ok(())
    }
}

/// The type of a field error, which becomes the `reason` of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The value names something that does not exist.
    NotFound,
    /// The field is required.
    Required,
    /// The value must be unique.
    Duplicate,
    /// The value is malformed or not allowed.
    Invalid,
    /// The value is not in the list of allowed values.
    NotSupported,
    /// The value is well-formed, but not allowed here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The value is too short.
    TooShort,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// The server failed.
    Internal,
    /// The value does not have the type that its schema demands.
    TypeInvalid,
}

impl ErrorKind {
    /// The `reason` of the cause.
    pub const fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        }
    }

    /// Whether the message contains the refused value.
    const fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required
                | ErrorKind::Forbidden
                | ErrorKind::TooLong
                | ErrorKind::TooShort
                | ErrorKind::Internal
        )
    }
}

/// The refused value, as the message shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// The message does not show the value.
    Omitted,
    /// A value that is printed as in Go: strings quoted, the rest as JSON.
    Value(Value),
    /// Text that is already in its printed form.
    Printed(String),
}

impl From<Value> for BadValue {
    fn from(value: Value) -> Self {
        BadValue::Value(value)
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        BadValue::Value(value.clone())
    }
}

macro_rules! bad_value_from {
    ($($from:ty),*) => {$(
        impl From<$from> for BadValue {
            fn from(value: $from) -> Self {
                BadValue::Value(Value::from(value))
            }
        }
    )*};
}
bad_value_from!(&str, String, i32, i64, u64, usize, bool, f64);

/// One validation error of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The type of the error.
    pub kind: ErrorKind,
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// The refused value.
    pub bad_value: BadValue,
    /// The rest of the message, which may be empty.
    pub detail: String,
}

impl FieldError {
    fn new(
        kind: ErrorKind,
        field: impl Display,
        bad_value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        FieldError { kind, field: field.to_string(), bad_value: bad_value.into(), detail: detail.into() }
    }

    /// The field is required but absent.
    pub fn required(field: impl Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, BadValue::Omitted, detail)
    }

    /// The value is malformed or not allowed.
    pub fn invalid(field: impl Display, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, field, value, detail)
    }

    /// The value does not have the type that its schema demands.
    pub fn type_invalid(field: impl Display, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, field, value, detail)
    }

    /// The value is not in `supported`, which the message lists in the given order.
    pub fn not_supported(field: impl Display, value: impl Into<BadValue>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| go::quote(value)).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        Self::new(ErrorKind::NotSupported, field, value, detail)
    }

    /// The field, or this value of it, is not allowed here.
    pub fn forbidden(field: impl Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, BadValue::Omitted, detail)
    }

    /// The value occurs twice.
    pub fn duplicate(field: impl Display, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorKind::Duplicate, field, value, "")
    }

    /// The value names something that does not exist.
    pub fn not_found(field: impl Display, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorKind::NotFound, field, value, "")
    }

    /// The value is longer than `max` bytes.
    pub fn too_long(field: impl Display, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(ErrorKind::TooLong, field, BadValue::Omitted, format!("may not be more than {max} {unit}"))
    }

    /// The value is longer than `max` characters.
    pub fn too_long_characters(field: impl Display, max: usize) -> Self {
        let unit = if max == 1 { "character" } else { "characters" };
        Self::new(ErrorKind::TooLong, field, BadValue::Omitted, format!("may not be more than {max} {unit}"))
    }

    /// The value is shorter than `min` characters.
    pub fn too_short(field: impl Display, min: usize) -> Self {
        let unit = if min == 1 { "character" } else { "characters" };
        Self::new(ErrorKind::TooShort, field, BadValue::Omitted, format!("must be at least {min} {unit}"))
    }

    /// The list has `actual` items, more than `max`.
    pub fn too_many(field: impl Display, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(ErrorKind::TooMany, field, actual, format!("must have at most {max} {unit}"))
    }

    /// The list has `actual` items, fewer than `min`.
    pub fn too_few(field: impl Display, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        Self::new(ErrorKind::TooFew, field, actual, format!("must have at least {min} {unit}"))
    }

    /// The validation itself failed.
    pub fn internal(field: impl Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, field, BadValue::Omitted, detail)
    }

    /// The message without the field, which is the `message` of a cause.
    pub fn body(&self) -> String {
        let mut text = String::from(self.kind.text());
        if self.kind.shows_value() && self.bad_value != BadValue::Omitted {
            text.push_str(": ");
            print_value(&mut text, &self.bad_value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The entry in `details.causes` of a Status.
    pub fn cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.body(), "field": self.field})
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Joins errors to one text, as Kubernetes' `NewAggregate` does: several in brackets, equal ones once.
pub fn aggregate<E: fmt::Display>(errors: &[E]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        1 => texts.swap_remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// The message of the 422 response for an invalid object.
///
/// ```
/// use evenkeel_schema::field::{FieldError, invalid_message};
/// let errors = [FieldError::required("spec.selector", "")];
/// assert_eq!(
///     invalid_message("apps", "Deployment", "web", &errors),
///     r#"Deployment.apps "web" is invalid: spec.selector: Required value"#
/// );
/// ```
pub fn invalid_message(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> String {
    let mut text = String::from(kind);
    if !group.is_empty() {
        text.push('.');
        text.push_str(group);
    }
    text.push(' ');
    go::quote_into(&mut text, name);
    text.push_str(" is invalid");
    if !errors.is_empty() {
        text.push_str(": ");
        text.push_str(&aggregate(errors));
    }
    text
}

fn print_value(out: &mut String, value: &BadValue) {
    match value {
        BadValue::Omitted => {}
        BadValue::Printed(text) => out.push_str(text),
        BadValue::Value(Value::String(text)) => go::quote_into(out, text),
        BadValue::Value(Value::Number(number)) => out.push_str(&go::number(number)),
        BadValue::Value(value) => out.push_str(&go::json(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_like_kubernetes() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let limits = first.child("limits");
        assert_eq!(limits.key("cpu").to_string(), "spec.containers[0].limits[cpu]");
        assert_eq!(Path::ROOT.to_string(), "<nil>");
        assert_eq!(Path::ROOT.child("spec").to_string(), "spec");
    }

    #[test]
    fn messages_print_like_kubernetes() {
        let check = |error: FieldError, text: &str| assert_eq!(error.to_string(), text);
        check(FieldError::required("a", ""), "a: Required value");
        check(FieldError::required("a", "why"), "a: Required value: why");
        check(FieldError::invalid("a", "x\"y", "bad"), r#"a: Invalid value: "x\"y": bad"#);
        check(FieldError::invalid("a", 3, "bad"), "a: Invalid value: 3: bad");
        check(FieldError::invalid("a", json!({"k": "<"}), "bad"), r#"a: Invalid value: {"k":"\u003c"}: bad"#);
        check(FieldError::invalid("a", Value::Null, "bad"), "a: Invalid value: null: bad");
        check(
            FieldError::not_supported("a", "x", &["y", "z"]),
            r#"a: Unsupported value: "x": supported values: "y", "z""#,
        );
        check(FieldError::duplicate("a", "x"), r#"a: Duplicate value: "x""#);
        check(FieldError::too_long("a", 63), "a: Too long: may not be more than 63 bytes");
        check(FieldError::too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items");
        check(FieldError::forbidden("a", "no"), "a: Forbidden: no");
    }

    #[test]
    fn an_aggregate_says_each_text_once() {
        let one = FieldError::required("a", "");
        assert_eq!(aggregate(&[one.clone(), one.clone()]), "a: Required value");
        let two = FieldError::required("b", "");
        assert_eq!(aggregate(&[one.clone(), two, one]), "[a: Required value, b: Required value]");
    }
}
