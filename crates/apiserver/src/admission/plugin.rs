//! What an admission plugin is, and what it is told of a write.

use std::sync::Arc;

use serde_json::Value;

use crate::ResourceInfo;
use crate::context::RequestContext;
use crate::registry::GroupResource;
use crate::status::Result;

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// The name of the operation in an AdmissionReview and in rules of policies and webhooks.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A write that passes admission.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub(crate) ctx: &'a RequestContext<'a>,
    pub(crate) operation: Operation,
    /// The name of the object. Empty if the object has no name yet.
    pub(crate) name: &'a str,
    /// The prefix from which the name will be generated; otherwise empty.
    pub(crate) generate_name: &'a str,
    /// The stored object. `None` for a creation, and for a deletion that no policy and no webhook will look at.
    pub(crate) old: Option<&'a Value>,
    /// The kind of the object, if the object is of another kind than the resource, such as the TokenRequest that is posted
    /// to a ServiceAccount.
    pub(crate) part: Option<&'a Arc<ResourceInfo>>,
    /// Whether the write is a dry run, which may have no side effects.
    pub(crate) dry_run: bool,
}

impl Admission<'_> {
    /// The name of the object in error messages of plugins.
    pub(super) fn shown_name(&self) -> &str {
        match (self.name, self.generate_name) {
            ("", "") => "Unknown",
            ("", base) => base,
            (name, _) => name,
        }
    }

    /// Whether the write is about an object of this resource, or about a subresource of it.
    pub(super) fn is_about(&self, resource: GroupResource) -> bool {
        self.ctx.info.is(resource)
    }
}

/// The writes that a plugin handles. It is not called for any other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handles {
    pub(super) operations: &'static [Operation],
    /// The resources that the plugin handles; all resources if empty.
    pub(super) resources: &'static [GroupResource],
    /// Whether writes to subresources are handled as well as writes to whole objects.
    pub(super) subresources: bool,
}

impl Handles {
    /// Every write.
    pub(super) const EVERYTHING: Self = Self {
        operations: &[Operation::Create, Operation::Update, Operation::Delete],
        resources: &[],
        subresources: true,
    };

    /// The creation of whole objects of these resources.
    pub(super) const fn creation_of(resources: &'static [GroupResource]) -> Self {
        Self { operations: &[Operation::Create], resources, subresources: false }
    }

    pub(super) fn includes(&self, admission: &Admission<'_>) -> bool {
        self.operations.contains(&admission.operation)
            && (self.subresources || admission.ctx.path.subresource.is_empty())
            && (self.resources.is_empty() || self.resources.iter().any(|it| admission.is_about(*it)))
    }
}

/// An admission plugin that decides from what is in memory.
pub(super) trait Plugin: Send + Sync {
    /// The writes that the plugin handles.
    fn handles(&self) -> Handles;

    /// Changes an object before it is validated, or refuses the write.
    fn mutate(&self, _: &Admission<'_>, _: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Refuses the write of a valid object, or warns of it. The object of a deletion is null; [`Admission::old`] is the
    /// object that is deleted.
    fn validate(&self, _: &Admission<'_>, _: &Value) -> Result<()> {
        Ok(())
    }
}

/// Joins several errors as Go's aggregate errors are printed. Returns `None` if there are no errors.
pub(super) fn aggregate(errors: &[String]) -> Option<String> {
    let mut told: Vec<&str> = Vec::new();
    for error in errors {
        if !told.contains(&error.as_str()) {
            told.push(error);
        }
    }
    match told.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
