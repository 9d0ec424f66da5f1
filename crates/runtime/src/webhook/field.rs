//! Field errors in Kubernetes' words. The user sees them as the causes of a response with status 422.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// What is wrong with a field. The names are those of Kubernetes' `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldErrorType {
    /// The value refers to something that does not exist.
    NotFound,
    /// The field must be set.
    Required,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The field must not be set, or must not change.
    Forbidden,
    /// The value has too many characters.
    TooLong,
    /// The list has too many items.
    TooMany,
}

impl FieldErrorType {
    /// Returns the reason of the cause in the `Status`, and the words of its message.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::NotFound => ("FieldValueNotFound", "Not found"),
            Self::Required => ("FieldValueRequired", "Required value"),
            Self::Duplicate => ("FieldValueDuplicate", "Duplicate value"),
            Self::Invalid => ("FieldValueInvalid", "Invalid value"),
            Self::NotSupported => ("FieldValueNotSupported", "Unsupported value"),
            Self::Forbidden => ("FieldValueForbidden", "Forbidden"),
            Self::TooLong => ("FieldValueTooLong", "Too long"),
            Self::TooMany => ("FieldValueTooMany", "Too many"),
        }
    }

    /// Whether the message contains the value.
    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong)
    }
}

/// An error in one field, formatted like Kubernetes' field errors: `spec.replicas: Invalid value: 9: must be odd`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldError {
    /// The type of the error.
    pub kind: FieldErrorType,
    /// The path of the field, such as `spec.ports[0].name`.
    pub field: String,
    /// The value of the field.
    pub value: Value,
    /// What would be correct.
    pub detail: String,
}

impl FieldError {
    /// The reason of the cause, as in `status.details.causes[].reason`.
    pub fn reason(&self) -> &'static str {
        self.kind.words().0
    }

    /// The message without the path of the field, as in `status.details.causes[].message`.
    pub fn message(&self) -> String {
        let mut text = self.kind.words().1.to_owned();
        if self.kind.shows_value() {
            text.push_str(&format!(": {}", self.value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

/// Collects the errors in an object's fields, to be returned as one verdict.
///
/// ```
/// use evenkeel_runtime::webhook::{FieldErrors, Verdict};
///
/// fn check(replicas: i32, class: &str) -> Verdict {
///     let mut errors = FieldErrors::default();
///     if replicas % 2 == 0 {
///         errors.invalid("spec.replicas", replicas, "must be odd");
///     }
///     if !["fast", "cheap"].contains(&class) {
///         errors.not_supported("spec.class", class, ["fast", "cheap"]);
///     }
///     errors.into()
/// }
///
/// assert_eq!(check(3, "fast"), Verdict::allow());
/// let refused = check(2, "free").to_string();
/// assert!(refused.contains(r#"spec.replicas: Invalid value: 2: must be odd"#), "{refused}");
/// assert!(refused.contains(r#"Unsupported value: "free": supported values: "fast", "cheap""#), "{refused}");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors {
    list: Vec<FieldError>,
}

impl FieldErrors {
    /// Adds an error.
    pub fn add(
        &mut self,
        kind: FieldErrorType,
        field: impl Into<String>,
        value: impl Serialize,
        detail: impl Into<String>,
    ) {
        // A value that cannot be encoded as JSON is shown as null; the error itself matters more.
        let value = serde_json::to_value(value).unwrap_or_default();
        self.list.push(FieldError { kind, field: field.into(), value, detail: detail.into() });
    }

    /// Adds an error: the value is malformed or out of range.
    pub fn invalid(
        &mut self,
        field: impl Into<String>,
        value: impl Serialize,
        detail: impl Into<String>,
    ) -> &mut Self {
        self.add(FieldErrorType::Invalid, field, value, detail);
        self
    }

    /// Adds an error: the field must be set.
    pub fn required(&mut self, field: impl Into<String>, detail: impl Into<String>) -> &mut Self {
        self.add(FieldErrorType::Required, field, Value::Null, detail);
        self
    }

    /// Adds an error: the field must not be set, or must not change.
    pub fn forbidden(&mut self, field: impl Into<String>, detail: impl Into<String>) -> &mut Self {
        self.add(FieldErrorType::Forbidden, field, Value::Null, detail);
        self
    }

    /// Adds an error: the value must be unique and is not.
    pub fn duplicate(&mut self, field: impl Into<String>, value: impl Serialize) -> &mut Self {
        self.add(FieldErrorType::Duplicate, field, value, "");
        self
    }

    /// Adds an error: the value refers to something that does not exist.
    pub fn not_found(&mut self, field: impl Into<String>, value: impl Serialize) -> &mut Self {
        self.add(FieldErrorType::NotFound, field, value, "");
        self
    }

    /// Adds an error: the value is not one of the supported values.
    pub fn not_supported<V: AsRef<str>>(
        &mut self,
        field: impl Into<String>,
        value: impl Serialize,
        supported: impl IntoIterator<Item = V>,
    ) -> &mut Self {
        let quoted = supported.into_iter().map(|value| Value::from(value.as_ref()).to_string());
        let detail = format!("supported values: {}", quoted.collect::<Vec<_>>().join(", "));
        self.add(FieldErrorType::NotSupported, field, value, detail);
        self
    }

    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.list.iter()
    }

    /// Joins all errors in one line as Kubernetes does: equal messages once, several in brackets.
    pub(super) fn joined(&self) -> String {
        let mut messages: Vec<String> = Vec::new();
        for message in self.list.iter().map(FieldError::to_string) {
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        match messages.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_those_of_kubernetes() {
        let mut errors = FieldErrors::default();
        errors.invalid("spec.storage", "1Gi", "cannot shrink");
        assert_eq!(errors.joined(), r#"spec.storage: Invalid value: "1Gi": cannot shrink"#);
        errors.required("spec.version", "");
        errors.required("spec.version", "");
        errors.duplicate("spec.ports[1].name", "http");
        errors.forbidden("spec.class", "cannot change");
        errors.not_found("spec.secret", "key");
        errors.add(FieldErrorType::TooMany, "spec.ports", 9, "must have at most 8 items");
        assert_eq!(
            errors.joined(),
            "[spec.storage: Invalid value: \"1Gi\": cannot shrink, spec.version: Required value, \
             spec.ports[1].name: Duplicate value: \"http\", spec.class: Forbidden: cannot change, \
             spec.secret: Not found: \"key\", spec.ports: Too many: 9: must have at most 8 items]"
        );
    }
}
