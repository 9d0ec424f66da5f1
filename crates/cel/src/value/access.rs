//! The `authorizer` of admission policies: a question about access, built up call by call.

use std::fmt::Debug;
use std::rc::Rc;

use crate::types::Opaque as OpaqueType;
use crate::value::{Fault, Outcome, Value};

/// Decides what a user may do.
pub trait Authorizer: Debug {
    /// Decides on one question.
    fn decide(&self, question: &AccessQuestion) -> AccessDecision;
}

/// A question that an expression asks an [`Authorizer`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessQuestion {
    /// The namespace and name of a service account, if the question is about one instead of the user of the request.
    pub service_account: Option<(String, String)>,
    /// The non-resource path, or `None` if the question is about a resource.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, or an empty string.
    pub subresource: String,
    /// The namespace, or an empty string.
    pub namespace: String,
    /// The name of the object, or an empty string.
    pub name: String,
    /// The verb.
    pub verb: String,
}

/// The answer of an [`Authorizer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether the access is allowed.
    pub allowed: bool,
    /// The reason for the decision, or an empty string.
    pub reason: String,
}

/// Which parts of a question have been given.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Start,
    Path,
    Group,
    Resource,
    Decided(AccessDecision),
}

/// A question about access, or its answer.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    authorizer: &'a dyn Authorizer,
    question: AccessQuestion,
    /// The resource of the request under review, for `authorizer.requestResource`.
    request: Rc<AccessQuestion>,
    stage: Stage,
}

impl<'a> Access<'a> {
    /// Makes an authorizer without a question yet. `request` describes the resource of the request under review.
    pub fn new(authorizer: &'a dyn Authorizer, request: AccessQuestion) -> Self {
        let question = AccessQuestion::default();
        Self { authorizer, question, request: Rc::new(request), stage: Stage::Start }
    }

    pub(crate) fn cel_type(&self) -> OpaqueType {
        match self.stage {
            Stage::Start => OpaqueType::Authorizer,
            Stage::Path => OpaqueType::PathCheck,
            Stage::Group => OpaqueType::GroupCheck,
            Stage::Resource => OpaqueType::ResourceCheck,
            Stage::Decided(_) => OpaqueType::Decision,
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.question == other.question && self.stage == other.stage
    }

    /// Returns the question about the resource of the request, for the field `requestResource`.
    pub(crate) fn request_resource(&self) -> Value<'a> {
        let question = AccessQuestion {
            service_account: self.question.service_account.clone(),
            ..(*self.request).clone()
        };
        Value::Access(Rc::new(Self { question, stage: Stage::Resource, ..self.clone() }))
    }

    /// Calls a function without arguments, which returns a part of the answer.
    pub(crate) fn answer(&self, function: &str) -> Outcome<Value<'a>> {
        let Stage::Decided(decision) = &self.stage else { return Err(Fault::no_overload()) };
        Ok(match function {
            "allowed" => Value::Bool(decision.allowed),
            "reason" => Value::text(decision.reason.as_str()),
            "errored" => Value::Bool(false),
            "error" => Value::text(""),
            _ => return Err(Fault::no_overload()),
        })
    }

    /// Calls a function with one argument, which adds to the question, or is `check`.
    pub(crate) fn ask(&self, function: &str, text: &str) -> Outcome<Value<'a>> {
        let mut next = self.clone();
        match (&self.stage, function) {
            (Stage::Start, "path") if text.trim().is_empty() => {
                return Err(Fault::new("path must not be empty"));
            }
            (Stage::Start, "path") => {
                next.question.path = Some(text.to_owned());
                next.stage = Stage::Path;
            }
            (Stage::Start, "group") => {
                next.question.group = text.to_owned();
                next.stage = Stage::Group;
            }
            (Stage::Group, "resource") if text.trim().is_empty() => {
                return Err(Fault::new("resource must not be empty"));
            }
            (Stage::Group, "resource") => {
                next.question.resource = text.to_owned();
                next.stage = Stage::Resource;
            }
            (Stage::Resource, "subresource") => next.question.subresource = text.to_owned(),
            (Stage::Resource, "namespace") => next.question.namespace = text.to_owned(),
            (Stage::Resource, "name") => next.question.name = text.to_owned(),
            // RBAC ignores selectors.
            (Stage::Resource, "fieldSelector" | "labelSelector") => {}
            (Stage::Resource | Stage::Path, "check") => {
                next.question.verb = text.to_owned();
                next.stage = Stage::Decided(self.authorizer.decide(&next.question));
            }
            _ => return Err(Fault::no_overload()),
        }
        Ok(Value::Access(Rc::new(next)))
    }

    /// Asks about a service account instead of the user of the request.
    pub(crate) fn service_account(&self, namespace: &str, name: &str) -> Outcome<Value<'a>> {
        if self.stage != Stage::Start {
            return Err(Fault::no_overload());
        }
        let wrong = evenkeel_scalars::names::dns1123_label(namespace);
        if !wrong.is_empty() {
            return Err(Fault::new(format!("Invalid service account namespace: [{}]", wrong.join(" "))));
        }
        let wrong = evenkeel_scalars::names::dns1123_subdomain(name);
        if !wrong.is_empty() {
            return Err(Fault::new(format!("Invalid service account name: [{}]", wrong.join(" "))));
        }
        let mut next = self.clone();
        next.question.service_account = Some((namespace.to_owned(), name.to_owned()));
        Ok(Value::Access(Rc::new(next)))
    }
}
