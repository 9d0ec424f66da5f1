//! Access reviews: questions about permissions that are answered but never stored.

use evenkeel_schema::field::{BadValue, FieldError};
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::names;
use jiff::Timestamp;

use super::MASTERS;
use crate::User;
use crate::access::{Attributes, Authorizer, Decision, Rule, Target};
use crate::status::{Result, Status};
use crate::strategy::Unstored;

const GROUP: &str = "authorization.k8s.io";

/// Answers a review: returns the object with its status filled in. `kind` is the kind of the resource that
/// was posted to.
///
/// Returns `None` if the kind is not an access review.
pub(crate) fn review(
    authorizer: &dyn Authorizer,
    user: &User,
    resource: Unstored,
    object: Value,
    now: Timestamp,
) -> Option<Result<Value>> {
    Some(match resource {
        Unstored::SelfSubjectReview => Ok(self_review(user, now)),
        Unstored::SelfSubjectRulesReview => rules_review(authorizer, user, &object),
        Unstored::SelfSubjectAccessReview => access_review(authorizer, Some(user), resource, object),
        Unstored::SubjectAccessReview | Unstored::LocalSubjectAccessReview => {
            access_review(authorizer, None, resource, object)
        }
        _ => return None,
    })
}

fn self_review(user: &User, now: Timestamp) -> Value {
    let created = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": created },
        "status": { "userInfo": user.to_info() },
    })
}

fn rules_review(authorizer: &dyn Authorizer, user: &User, object: &Value) -> Result<Value> {
    let namespace = text(object, "/spec/namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let mut rules = Vec::new();
    if user.is_in(MASTERS) {
        let star = || vec!["*".to_owned()];
        rules.push(Rule { verbs: star(), api_groups: star(), resources: star(), ..Rule::default() });
        rules.push(Rule { verbs: star(), non_resource_urls: star(), ..Rule::default() });
    }
    rules.extend(authorizer.rules(user, namespace));
    let resources = rules.iter().filter(|rule| !rule.resources.is_empty());
    let resources = resources.map(|rule| json!(Rule { non_resource_urls: Vec::new(), ..rule.clone() }));
    let paths = rules.iter().filter(|rule| !rule.non_resource_urls.is_empty());
    let paths = paths.map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
    Ok(json!({
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": resources.collect::<Vec<_>>(),
            "nonResourceRules": paths.collect::<Vec<_>>(),
            "incomplete": false,
        },
    }))
}

/// Answers an access review for `asking`, or for the user in the spec if `asking` is `None`.
fn access_review(
    authorizer: &dyn Authorizer,
    asking: Option<&User>,
    resource: Unstored,
    mut object: Value,
) -> Result<Value> {
    let is_local = resource == Unstored::LocalSubjectAccessReview;
    let errors = validate(asking.is_some(), is_local, &object);
    if !errors.is_empty() {
        return Err(Status::invalid(GROUP, "", "", &errors));
    }
    let named = spec_user(&object);
    let decision = authorizer.authorize(&attributes(asking.unwrap_or(&named), &object));
    let (allowed, reason) = match decision {
        Decision::Allow(reason) => (true, reason),
        Decision::Deny(reason) => (false, reason),
    };
    object["status"] = json!({ "allowed": allowed });
    if let Some(error) = ignored_selectors(&object) {
        object["status"]["evaluationError"] = error.into();
    }
    if !reason.is_empty() {
        object["status"]["reason"] = reason.into();
    }
    Ok(object)
}

/// What Kubernetes says about selectors of which it ignores requirements that it does not understand.
fn ignored_selectors(object: &Value) -> Option<String> {
    type IsValid = fn(&Value) -> bool;
    let rules = [("fieldSelector", is_field_requirement as IsValid), ("labelSelector", is_label_requirement)];
    let texts = rules.into_iter().filter_map(|(kind, is_valid)| {
        let requirements = object.pointer(&format!("/spec/resourceAttributes/{kind}/requirements"));
        let requirements = requirements.and_then(Value::as_array)?;
        let how = match requirements.iter().filter(|it| is_valid(it)).count() {
            count if count == requirements.len() => return None,
            0 => "ignored",
            _ => "partially ignored",
        };
        Some(format!("spec.resourceAttributes.{kind} {how} due to parse error"))
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Whether a field selector can have this requirement: one value, which the field has or has not.
fn is_field_requirement(requirement: &Value) -> bool {
    matches!(text(requirement, "/operator"), "In" | "NotIn")
        && requirement["values"].as_array().is_some_and(|values| values.len() == 1)
}

fn is_label_requirement(requirement: &Value) -> bool {
    let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
    let counted = match text(requirement, "/operator") {
        "In" | "NotIn" => !values.is_empty(),
        "Exists" | "DoesNotExist" => values.is_empty(),
        _ => false,
    };
    let value_fits = |value: &Value| names::label_value(value.as_str().unwrap_or_default()).is_empty();
    counted && names::qualified_name(text(requirement, "/key")).is_empty() && values.iter().all(value_fits)
}

fn spec_user(object: &Value) -> User {
    let groups = object.pointer("/spec/groups").cloned().unwrap_or_default();
    let extra = object.pointer("/spec/extra").cloned().unwrap_or_default();
    User {
        name: text(object, "/spec/user").to_owned(),
        uid: text(object, "/spec/uid").to_owned(),
        groups: evenkeel_schema::json::from_value(groups).unwrap_or_default(),
        extra: evenkeel_schema::json::from_value(extra).unwrap_or_default(),
    }
}

fn attributes<'a>(user: &'a User, object: &'a Value) -> Attributes<'a> {
    if let Some(path) = present(object, "/spec/nonResourceAttributes") {
        return Attributes { user, verb: text(path, "/verb"), target: Target::Path(text(path, "/path")) };
    }
    let wanted = present(object, "/spec/resourceAttributes").unwrap_or(&Value::Null);
    let target = Target::Resource {
        group: text(wanted, "/group"),
        version: text(wanted, "/version"),
        resource: text(wanted, "/resource"),
        subresource: text(wanted, "/subresource"),
        namespace: text(wanted, "/namespace"),
        name: text(wanted, "/name"),
    };
    Attributes { user, verb: text(wanted, "/verb"), target }
}

fn validate(of_oneself: bool, is_local: bool, object: &Value) -> Vec<FieldError> {
    let resource = present(object, "/spec/resourceAttributes");
    let path = present(object, "/spec/nonResourceAttributes");
    let mut errors = Vec::new();
    match (resource, path) {
        (Some(_), Some(path)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", as_go(path), detail));
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid("spec.resourceAttributes", Value::Null, detail));
        }
        _ => {}
    }
    let groups = object.pointer("/spec/groups").and_then(Value::as_array);
    if !of_oneself && text(object, "/spec/user").is_empty() && groups.is_none_or(Vec::is_empty) {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", Value::from(""), detail));
    }
    for selector in ["fieldSelector", "labelSelector"] {
        errors.extend(resource.and_then(|resource| validate_selector(resource, selector)));
    }
    errors.extend(validate_metadata(is_local, object));
    if is_local {
        errors.extend(validate_local(object, resource, path));
    }
    errors
}

fn validate_selector(resource: &Value, name: &str) -> Option<FieldError> {
    let selector = resource.get(name).filter(|selector| selector.is_object())?;
    let field = format!("spec.resourceAttributes.{name}");
    let raw = text(selector, "/rawSelector");
    let requirements = selector.get("requirements").and_then(Value::as_array);
    match (raw.is_empty(), requirements.is_none_or(Vec::is_empty)) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            Some(FieldError::invalid(format!("{field}.rawSelector"), Value::from(raw), detail))
        }
        (true, true) => {
            let detail = format!("when {field} is specified, requirements or rawSelector is required");
            Some(FieldError::required(format!("{field}.requirements"), detail))
        }
        _ => None,
    }
}

fn validate_metadata(is_local: bool, object: &Value) -> Option<FieldError> {
    let metadata = object.get("metadata").and_then(Value::as_object)?;
    let may = |key: &str| key == "managedFields" || key == "namespace" && is_local;
    if metadata.iter().all(|(key, value)| may(key) || value.is_null()) {
        return None;
    }
    let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
    Some(FieldError::invalid("metadata", Value::Object(metadata.clone()), detail))
}

fn validate_local(object: &Value, resource: Option<&Value>, path: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespace = resource.map(|resource| text(resource, "/namespace"));
    if let Some(namespace) = namespace.filter(|namespace| *namespace != text(object, "/metadata/namespace")) {
        let detail = "must match metadata.namespace";
        errors.push(FieldError::invalid("spec.resourceAttributes.namespace", Value::from(namespace), detail));
    }
    if let Some(path) = path {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", as_go(path), detail));
    }
    errors
}

/// The attributes as Kubernetes prints them in errors: with the field names of the Go struct.
fn as_go(attributes: &Value) -> BadValue {
    json!({ "Path": text(attributes, "/path"), "Verb": text(attributes, "/verb") }).into()
}

fn present<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|value| !value.is_null())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
