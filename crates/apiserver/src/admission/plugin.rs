//! The interface of admission plugins.

use std::sync::Arc;

use evenkeel_schema::json::Value;

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
    /// A request that connects to an object, such as exec. Its object are the options of the request.
    Connect,
}

impl Operation {
    /// The name of the operation in an AdmissionReview and in rules of policies and webhooks.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write that passes admission.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub(crate) ctx: &'a RequestContext<'a>,
    pub(crate) operation: Operation,
    /// The name of the object; empty if it has none yet.
    pub(crate) name: &'a str,
    /// The prefix of a name that is still to be generated; otherwise empty.
    pub(crate) generate_name: &'a str,
    /// The stored object. `None` for a create, and for a deletion that no policy or webhook looks at.
    pub(crate) old: Option<&'a Value>,
    /// The kind of the object, if it differs from the resource's, such as the TokenRequest that is posted to
    /// a ServiceAccount.
    pub(crate) part: Option<&'a Arc<ResourceInfo>>,
    /// Whether the write is a dry run, which may have no side effects.
    pub(crate) dry_run: bool,
}

impl Admission<'_> {
    /// The object's name in the messages of plugins.
    pub(super) fn shown_name(&self) -> &str {
        match (self.name, self.generate_name) {
            ("", "") => "Unknown",
            ("", base) => base,
            (name, _) => name,
        }
    }

    /// Whether the write addresses an object of this resource or one of its subresources.
    pub(super) fn is_about(&self, resource: GroupResource) -> bool {
        self.ctx.info.is(resource)
    }
}

/// The writes that a plugin handles; the plugin is not called for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handles {
    pub(super) operations: &'static [Operation],
    /// The resources that the plugin handles; empty for all.
    pub(super) resources: &'static [GroupResource],
    /// Whether the plugin also handles writes to subresources.
    pub(super) subresources: bool,
}

impl Handles {
    /// Every write.
    pub(super) const EVERYTHING: Self = Self {
        operations: &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect],
        resources: &[],
        subresources: true,
    };

    /// The creation of objects of these resources, without subresources.
    pub(super) const fn creation_of(resources: &'static [GroupResource]) -> Self {
        Self { operations: &[Operation::Create], resources, subresources: false }
    }

    pub(super) fn includes(&self, admission: &Admission<'_>) -> bool {
        self.operations.contains(&admission.operation)
            && (self.subresources || admission.ctx.path.subresource.is_empty())
            && (self.resources.is_empty() || self.resources.iter().any(|it| admission.is_about(*it)))
    }
}

/// An admission plugin. It decides from what is in memory and never waits.
pub(super) trait Plugin: Send + Sync {
    /// The writes that the plugin handles.
    fn handles(&self) -> Handles;

    /// Changes an object before validation, or refuses the write.
    fn mutate(&self, _: &Admission<'_>, _: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Refuses the write of a valid object, or adds warnings. For a deletion the object is null, and
    /// [`Admission::old`] is the deleted object.
    fn validate(&self, _: &Admission<'_>, _: &Value) -> Result<()> {
        Ok(())
    }
}
