//! Label and field selectors.
//!
//! A [`LabelSelector`] comes from a query string ([`LabelSelector::parse`]) or from an object
//! ([`LabelSelector::from_object`]). A [`FieldSelector`] selects by the few selectable fields of a kind.

mod fields;
mod parse;

pub use fields::{FieldRequirement, FieldSelector};

use std::borrow::Cow;
use std::fmt;

use crate::json::Value;

use evenkeel_scalars::go;

use crate::field::{self, FieldError, Path};
use crate::names;

/// The operator of a requirement on a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`: the label exists and is equal to the value.
    Equals,
    /// `==`: the label exists and is equal to the value; kept apart from `=` for printing.
    DoubleEquals,
    /// `!=`: the label is absent or differs from the value.
    NotEquals,
    /// `in`: the label exists and is one of the values.
    In,
    /// `notin`: the label is absent or none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// `!`: the label is absent.
    DoesNotExist,
    /// `>`: the label is an integer greater than the value.
    GreaterThan,
    /// `<`: the label is an integer less than the value.
    LessThan,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// Makes a valid requirement. The error is the message of Kubernetes.
    pub fn new(key: String, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        let errors = check_requirement(&key, operator, &values);
        match errors.is_empty() {
            true => Ok(Requirement { key, operator, values }),
            false => Err(field::aggregate(&errors)),
        }
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values that the label is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether a label with this value, or an absent label (`None`), satisfies the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let has = |value: &str| self.values.iter().any(|candidate| candidate == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(has),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.compare(value).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

fn check_requirement(key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    // Kubernetes validates a requirement at the nil path, so that its fields are named without a prefix.
    let key_path = Path::new("key");
    let values_path = Path::new("values");
    let mut errors = Vec::new();
    let invalid_values =
        |detail: &str| FieldError::invalid(values_path, Value::from(values.to_vec()), detail);
    errors.extend(check_key(&key_path, key));
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            errors.push(invalid_values("for 'in', 'notin' operators, values set can't be empty"));
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            errors.push(invalid_values("exact-match compatibility requires one single value"));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            errors.push(invalid_values("values set must be empty for exists and does not exist"));
        }
        Operator::GreaterThan | Operator::LessThan => {
            if values.len() != 1 {
                errors.push(invalid_values("for 'Gt', 'Lt' operators, exactly one value is required"));
            }
            for (index, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(values_path.index(index), value.as_str(), detail));
                }
            }
        }
        _ => {}
    }
    for (index, value) in values.iter().enumerate() {
        let texts = names::label_value(value);
        if !texts.is_empty() {
            let at = values_path.index(index);
            errors.push(FieldError::invalid(at.key(key), value.as_str(), texts.join("; ")));
        }
    }
    errors
}

fn check_key(path: &Path<'_>, key: &str) -> Option<FieldError> {
    let texts = names::qualified_name(key);
    (!texts.is_empty()).then(|| FieldError::invalid(path, key, texts.join("; ")))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A conjunction of requirements on labels.
///
/// ```
/// use evenkeel_schema::selector::LabelSelector;
/// let selector = LabelSelector::parse("app in (web, api), !canary").expect("well-formed");
/// let labels = evenkeel_schema::json::json!({"app": "web"});
/// assert!(selector.matches(|key| labels.get(key)?.as_str()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// Whether the selector matches nothing, like a null selector in an object. An empty selector matches everything.
    nothing: bool,
}

impl LabelSelector {
    /// A selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// A selector that matches no object.
    pub fn nothing() -> Self {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// Parses a label selector of a query string. The error is the message of Kubernetes.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = parse::parse(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements, nothing: false })
    }

    /// Converts a selector with `matchLabels` and `matchExpressions`; null matches nothing.
    pub fn from_object(selector: &Value) -> Result<Self, String> {
        let Some(object) = selector.as_object() else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        if let Some(labels) = object.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels {
                let value = value.as_str().unwrap_or_default().to_owned();
                requirements.push(Requirement::new(key.clone().to_string(), Operator::Equals, vec![value])?);
            }
        }
        for expression in object.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            requirements.push(requirement_from(expression)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements, nothing: false })
    }

    /// Converts a plain map of labels, such as a Service's selector; an empty map matches everything.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut requirements: Vec<Requirement> = labels
            .into_iter()
            .map(|(key, value)| Requirement {
                key: key.to_owned(),
                operator: Operator::Equals,
                values: vec![value.to_owned()],
            })
            .collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }

    /// Whether the selector matches every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the selector matches the labels that `get` looks up.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self.requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

fn requirement_from(expression: &Value) -> Result<Requirement, String> {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(format!("{} is not a valid label selector operator", go::quote(other))),
    };
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Requirement::new(text("key").to_owned(), operator, values)
}

/// Validates a selector with `matchLabels` and `matchExpressions` at `path`.
pub fn validate(path: &Path<'_>, selector: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(object) = selector.as_object() else { return errors };
    if let Some(labels) = object.get("matchLabels") {
        validate_labels(&path.child("matchLabels"), labels, &mut errors);
    }
    let expressions = path.child("matchExpressions");
    let list = object.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in list.into_iter().flatten().enumerate() {
        validate_expression(&expressions.index(index), expression, &mut errors);
    }
    errors
}

fn validate_expression(path: &Path<'_>, expression: &Value, errors: &mut Vec<FieldError>) {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let values = expression.get("values").and_then(Value::as_array);
    let values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
    let values_path = path.child("values");
    match text("operator") {
        "In" | "NotIn" if values.is_empty() => errors
            .push(FieldError::required(values_path, "must be specified when `operator` is 'In' or 'NotIn'")),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            values_path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator"))
        }
    }
    let key = text("key");
    for message in names::qualified_name(key) {
        errors.push(FieldError::invalid(path.child("key"), key, message));
    }
    for (index, value) in values.into_iter().enumerate() {
        for message in names::label_value(value) {
            errors.push(FieldError::invalid(values_path.index(index), value, message));
        }
    }
}

/// Validates a map of labels at `path`. Every error is at the map itself, as in Kubernetes.
pub fn validate_labels(path: &Path<'_>, labels: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for message in names::qualified_name(key) {
            errors.push(FieldError::invalid(path, key.as_str(), message));
        }
        let value = value.as_str().map(Cow::Borrowed).unwrap_or_default();
        for message in names::label_value(&value) {
            errors.push(FieldError::invalid(path, &*value, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn matches(selector: &str, labels: &Value) -> bool {
        let selector = LabelSelector::parse(selector).expect("well-formed");
        selector.matches(|key| labels.get(key)?.as_str())
    }

    #[test]
    fn matches_as_kubernetes_does() {
        let labels = json!({"a": "1", "b": "x"});
        for yes in
            ["", "a", "a=1", "a==1", "a!=2", "!c", "c!=1", "a in (1,2)", "c notin (1)", "a>0", "a<2", "b"]
        {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in ["c", "a=2", "!a", "a notin (1)", "a>1", "b>1", "c>1", "a,c"] {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn prints_what_it_parsed() {
        for (text, printed) in [
            ("b in (y, x),a", "a,b in (x,y)"),
            ("a==1 , !b", "a==1,!b"),
            ("a=", "a="),
            ("a in ()", "a in ()"),
            ("x in (,a)", "x in (,a)"),
            ("in in (in)", "in in (in)"),
        ] {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.to_string(), printed);
        }
    }

    #[test]
    fn an_absent_selector_selects_nothing() {
        assert!(!LabelSelector::from_object(&Value::Null).unwrap().matches(|_| None));
        assert!(LabelSelector::from_object(&json!({})).unwrap().matches(|_| None));
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]});
        assert!(LabelSelector::from_object(&selector).unwrap().matches(|_| None));
    }

    #[test]
    fn object_form_is_checked() {
        let selector =
            json!({"matchExpressions": [{"key": "a b", "operator": "In"}, {"key": "a", "operator": "Gt"}]});
        let errors: Vec<String> =
            validate(&Path::new("selector"), &selector).iter().map(|error| error.field.clone()).collect();
        assert_eq!(
            errors,
            [
                "selector.matchExpressions[0].values",
                "selector.matchExpressions[0].key",
                "selector.matchExpressions[1].operator"
            ]
        );
    }
}
