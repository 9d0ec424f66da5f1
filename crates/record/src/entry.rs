//! The entries of a record: what happened, one value each.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;

/// One thing that happened. Times are microseconds since the start of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Entry {
    /// A reconcile, from its start to its result.
    Reconcile(Box<Reconcile>),
    /// A request outside of a reconcile, such as one of a user.
    Request(Sent),
    /// A review that a webhook answered.
    Webhook(WebhookCall),
    /// This process became the leader, or lost leadership.
    Leadership {
        /// When it happened, in microseconds since the start of the record.
        at: u64,
        /// The name of the lease.
        lease: String,
        /// Whether this process leads from this moment on.
        leads: bool,
    },
    /// A watch failed, was reopened, or listed again.
    Watch {
        /// When it happened, in microseconds since the start of the record.
        at: u64,
        /// The resource that the watch follows.
        source: String,
        /// What happened to the watch.
        what: String,
    },
    /// A test or a person disturbed the cluster on purpose.
    Disturbance {
        /// When it happened, in microseconds since the start of the record.
        at: u64,
        /// What was done.
        what: String,
    },
    /// An entry that a newer version of the format has added.
    #[serde(other)]
    Unknown,
}

/// A reconcile of one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reconcile {
    /// When the reconcile began, in microseconds since the start of the record.
    pub at: u64,
    /// The name of the controller.
    pub controller: String,
    /// The kind that the controller reconciles, or an empty string for a controller without a kind of its own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The namespace of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the key.
    pub name: String,
    /// The id of the reconcile, which its log lines carry too.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The id of the reconcile's trace, if it is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What caused the reconcile.
    pub causes: Vec<Cause>,
    /// How many causes beyond those in `causes` there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_causes: u64,
    /// How long the key was ready in the queue, in microseconds.
    pub wait: u64,
    /// How long the reconcile took, in microseconds.
    pub took: u64,
    /// How many attempts for this key failed in a row before this one.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub attempt: u32,
    /// Whether the caches still lacked the reconciler's own last writes to this key.
    #[serde(skip_serializing_if = "is_false")]
    pub behind: bool,
    /// The objects that the reconcile read from caches, with their revisions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Read>,
    /// The requests that the reconcile sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Sent>,
    /// How many requests beyond those in `requests` were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_requests: u64,
    /// How the reconcile ended.
    pub outcome: Outcome,
    /// The delay after which the key is reconciled again without another cause, in microseconds after the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<u64>,
    /// The error with its sources, if the reconcile failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Outcome {
    /// The reconcile succeeded, and its key waits for the next change.
    #[default]
    Done,
    /// The reconcile succeeded and asked to run again, at once or later.
    Requeued,
    /// The reconcile failed and will be retried.
    Failed,
    /// The reconcile failed and will not be retried.
    FailedForGood,
    /// The reconcile is still running.
    Running,
}

impl Reconcile {
    /// When it ended, in microseconds since the start of the record.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.took)
    }

    /// How many attempts in a row there were, this one included.
    pub fn attempts(&self) -> u32 {
        self.attempt.saturating_add(1)
    }
}

impl Outcome {
    /// Whether the reconcile failed.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::FailedForGood)
    }
}

/// An object that was read from a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Read {
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The object's resource version, or 0 if it is not a number.
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: u64,
}

/// A request to the API server, and its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sent {
    /// When the request was sent, in microseconds since the start of the record.
    pub at: u64,
    /// The client that sent the request, for requests outside of a reconcile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Kubernetes' verb, or `apply` for a server-side apply.
    pub verb: String,
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource, such as `pods`, or the path if the request addresses no resource.
    pub resource: String,
    /// The subresource, such as `status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The HTTP status code, or 0 if no response came.
    pub code: u16,
    /// How long the response took, in microseconds.
    pub took: u64,
    /// The revision that the write created, or 0 if it changed nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// The fields that the write changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// How many changed fields beyond those in `changes` there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_changes: u64,
    /// The message of the response, if it was an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Sent {
    /// Whether the request may change something.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "apply" | "delete" | "deletecollection")
    }

    /// Whether the request was refused or got no response.
    pub fn is_failure(&self) -> bool {
        self.code == 0 || self.code >= 400
    }
}

/// A field that a write changed.
///
/// `from` and `to` are given only for numbers, booleans and the status of conditions. They are absent for all other
/// values, for Secrets and for sensitive fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Change {
    /// The path of the field, such as `spec.replicas` or `status.conditions[type=Ready].status`.
    pub path: String,
    /// The value before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A call to a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookCall {
    /// When the webhook was called, in microseconds since the start of the record.
    pub at: u64,
    /// The caller, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The path or URL of the webhook.
    pub path: String,
    /// The request that the webhook reviewed: its operation and its object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The HTTP status code of the response.
    pub code: u16,
    /// How long the response took, in microseconds.
    pub took: u64,
}

impl Entry {
    /// When the entry happened, in microseconds since the start of the record.
    pub fn at(&self) -> u64 {
        match self {
            Self::Reconcile(reconcile) => reconcile.at,
            Self::Request(sent) => sent.at,
            Self::Webhook(call) => call.at,
            Self::Leadership { at, .. } | Self::Watch { at, .. } | Self::Disturbance { at, .. } => *at,
            Self::Unknown => 0,
        }
    }

    /// Shifts all times by this many microseconds.
    pub(crate) fn shift(&mut self, micros: i64) {
        let moved = |at: &mut u64| *at = at.saturating_add_signed(micros);
        match self {
            Self::Reconcile(reconcile) => {
                moved(&mut reconcile.at);
                reconcile.requests.iter_mut().for_each(|sent| moved(&mut sent.at));
            }
            Self::Request(sent) => moved(&mut sent.at),
            Self::Webhook(call) => moved(&mut call.at),
            Self::Leadership { at, .. } | Self::Watch { at, .. } | Self::Disturbance { at, .. } => moved(at),
            Self::Unknown => {}
        }
    }

    /// The reconcile, if this is one.
    pub fn reconcile(&self) -> Option<&Reconcile> {
        match self {
            Self::Reconcile(reconcile) => Some(reconcile),
            _ => None,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}
