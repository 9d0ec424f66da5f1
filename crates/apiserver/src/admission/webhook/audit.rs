//! What admission webhooks leave in the audit log, under Kubernetes' keys.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Webhook;
use crate::context::RequestContext;

const PATCH: &str = "patch.webhook.admission.k8s.io/";
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const FAILED_OPEN_MUTATING: &str = "failed-open.mutation.webhook.admission.k8s.io/";
const FAILED_OPEN_VALIDATING: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// Which call of a webhook an annotation is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    is_mutating: bool,
    /// One for a webhook that is asked again, else zero.
    round: usize,
    /// The place of the webhook: a mutating one among all of them, a validating one among those that are asked.
    index: usize,
}

/// Whether a mutating webhook has changed the object.
#[derive(Serialize)]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    mutated: bool,
}

/// The patch of a mutating webhook.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'a> {
    configuration: &'a str,
    webhook: &'a str,
    patch: &'a RawValue,
    patch_type: &'a str,
}

impl Place {
    pub(super) fn mutating(round: usize, index: usize) -> Self {
        Self { is_mutating: true, round, index }
    }

    pub(super) fn validating(index: usize) -> Self {
        Self { is_mutating: false, round: 0, index }
    }

    fn key(self, prefix: &str) -> String {
        format!("{prefix}round_{}_index_{}", self.round, self.index)
    }

    /// Notes whether a mutating webhook has changed the object.
    pub(super) fn note_mutation(self, ctx: &RequestContext<'_>, hook: &Webhook, mutated: bool) {
        let Some(trail) = ctx.audit else { return };
        let note = Mutation { configuration: &hook.configuration, webhook: &hook.name, mutated };
        if let Ok(value) = serde_json::to_string(&note) {
            trail.annotate(&self.key(MUTATION), &value);
        }
    }

    /// Notes the patch of a mutating webhook. It shows a part of the object, so that the level must be `Request` or above.
    pub(super) fn note_patch(self, ctx: &RequestContext<'_>, hook: &Webhook, patch: &[u8]) {
        let Some(trail) = ctx.audit else { return };
        let Ok(patch) = serde_json::from_slice::<&RawValue>(patch) else { return };
        let note =
            Patch { configuration: &hook.configuration, webhook: &hook.name, patch, patch_type: "JSONPatch" };
        if let Ok(value) = serde_json::to_string(&note) {
            trail.annotate_request(&self.key(PATCH), &value);
        }
    }

    /// Notes that a webhook failed and was ignored.
    pub(super) fn note_failed_open(self, ctx: &RequestContext<'_>, hook: &Webhook) {
        let Some(trail) = ctx.audit else { return };
        let prefix = if self.is_mutating { FAILED_OPEN_MUTATING } else { FAILED_OPEN_VALIDATING };
        trail.annotate(&self.key(prefix), &hook.name);
    }
}
