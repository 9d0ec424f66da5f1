//! The audit annotations of admission webhooks, with Kubernetes' keys.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Webhook;
use crate::context::RequestContext;

const PATCH: &str = "patch.webhook.admission.k8s.io/";
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const FAILED_OPEN_MUTATING: &str = "failed-open.mutation.webhook.admission.k8s.io/";
const FAILED_OPEN_VALIDATING: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// The call of a webhook to which an annotation belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Invocation {
    is_mutating: bool,
    /// One if the webhook is called again; otherwise zero.
    round: usize,
    /// The index of the webhook: of a mutating one among all, of a validating one among those that are
    /// called.
    index: usize,
}

/// The annotation that says whether a mutating webhook changed the object.
#[derive(Serialize)]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    mutated: bool,
}

/// The annotation with the patch of a mutating webhook.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'a> {
    configuration: &'a str,
    webhook: &'a str,
    patch: &'a RawValue,
    patch_type: &'a str,
}

impl Invocation {
    pub(super) fn mutating(round: usize, index: usize) -> Self {
        Self { is_mutating: true, round, index }
    }

    pub(super) fn validating(index: usize) -> Self {
        Self { is_mutating: false, round: 0, index }
    }

    fn key(self, prefix: &str) -> String {
        format!("{prefix}round_{}_index_{}", self.round, self.index)
    }

    /// Records whether a mutating webhook changed the object.
    pub(super) fn note_mutation(self, ctx: &RequestContext<'_>, hook: &Webhook, mutated: bool) {
        let Some(trail) = ctx.audit else { return };
        let note = Mutation { configuration: &hook.configuration, webhook: &hook.name, mutated };
        if let Ok(value) = serde_json::to_string(&note) {
            trail.annotate(&self.key(MUTATION), &value);
        }
    }

    /// Records the patch of a mutating webhook, at the level `Request` and above, because the patch contains
    /// a part of the object.
    pub(super) fn note_patch(self, ctx: &RequestContext<'_>, hook: &Webhook, patch: &[u8]) {
        let Some(trail) = ctx.audit else { return };
        let Ok(patch) = serde_json::from_slice::<&RawValue>(patch) else { return };
        let note =
            Patch { configuration: &hook.configuration, webhook: &hook.name, patch, patch_type: "JSONPatch" };
        if let Ok(value) = serde_json::to_string(&note) {
            trail.annotate_request(&self.key(PATCH), &value);
        }
    }

    /// Records that a failed webhook was ignored.
    pub(super) fn note_failed_open(self, ctx: &RequestContext<'_>, hook: &Webhook) {
        let Some(trail) = ctx.audit else { return };
        let prefix = if self.is_mutating { FAILED_OPEN_MUTATING } else { FAILED_OPEN_VALIDATING };
        trail.annotate(&self.key(prefix), &hook.name);
    }
}
