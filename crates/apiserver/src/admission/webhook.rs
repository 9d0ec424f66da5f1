//! Admission webhooks: which ones are called for a write, and how their responses are applied.
//!
//! They run after the plugins and policies: mutating webhooks one after the other before validation,
//! validating webhooks concurrently after everything else has accepted the write.

mod answer;
mod audit;
mod question;

use std::collections::BTreeSet;

use bytes::Bytes;
use evenkeel_schema::admission::Inputs;
use evenkeel_schema::json::Value;
use evenkeel_schema::patch::json::JsonPatch;
use evenkeel_schema::{strict_decoding, types};
use futures::future::join_all;

use self::answer::Verdict;
use self::audit::Invocation;
use super::access::Access;
use super::admission_policy::{Matched, matches, registered, request};
use super::plugin::Admission;
use crate::admission_registration::Webhook;
use crate::context::RequestContext;
use crate::incoming::{Incoming, Source};
use crate::status::{Result, Status, quote};
use crate::webhook_client::CallError;
use crate::{ResourceInfo, WebhookAnswer};

/// The default timeout of a webhook, as in Kubernetes.
const TIMEOUT_SECONDS: u64 = 10;

/// Why a webhook gave no verdict.
enum Failure {
    /// The call failed, or the response is invalid; the webhook's failure policy decides.
    Call(String),
    /// The webhook denied the request, or its patch cannot be applied.
    Refused(Status),
}

/// The input of a review: the request as the webhook's rule matched it, and the objects in the version of that rule.
struct Asked {
    matched: Matched,
    object: Value,
    old: Value,
}

/// Runs the plugins again over an object that a webhook has changed.
type Reinvoke = fn(&Admission<'_>, &mut Value) -> Result<()>;

/// Runs the mutating webhooks, one after the other.
///
/// The plugins run again if a webhook changed the object. A webhook with the reinvocation policy `IfNeeded`
/// is called again if a later webhook or a plugin changed the object.
pub(super) async fn mutate(admission: &Admission<'_>, object: &mut Value, reinvoke: Reinvoke) -> Result<()> {
    let registered = registered(admission.ctx, admission.shown_name())?;
    let hooks = &registered.mutating_webhooks;
    if hooks.is_empty() {
        return Ok(());
    }
    let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
    let mut changed = false;
    for (index, hook) in hooks.iter().enumerate() {
        let place = Invocation::mutating(0, index);
        let Some(outcome) = mutate_by(admission, hook, object, place).await? else { continue };
        if outcome {
            changed = true;
            again.append(&mut seen);
        }
        if hook.spec["reinvocationPolicy"] == "IfNeeded" {
            seen.insert(index);
        }
    }
    if !changed {
        return Ok(());
    }
    let before = object.clone();
    reinvoke(admission, object)?;
    if *object != before {
        again.append(&mut seen);
    }
    for index in again {
        mutate_by(admission, &hooks[index], object, Invocation::mutating(1, index)).await?;
    }
    Ok(())
}

/// Runs the validating webhooks concurrently.
pub(super) async fn validate(admission: &Admission<'_>, object: &Value) -> Result<()> {
    let registered = registered(admission.ctx, admission.shown_name())?;
    let mut asked = Vec::new();
    for hook in &registered.validating_webhooks {
        if let Some(about) = match_request(admission, hook, object).await? {
            asked.push((hook, about));
        }
    }
    let verdicts = asked.iter().enumerate().map(|(index, (hook, about))| async move {
        let verdict = call_webhook(admission, hook, about, false).await;
        apply_failure_policy(admission, hook, verdict, Invocation::validating(index)).map(|_| ())
    });
    join_all(verdicts).await.into_iter().collect()
}

/// Calls one mutating webhook.
///
/// Returns `None` if the webhook does not match this request, otherwise whether it mutated the object.
async fn mutate_by(
    admission: &Admission<'_>,
    hook: &Webhook,
    object: &mut Value,
    place: Invocation,
) -> Result<Option<bool>> {
    let Some(asked) = match_request(admission, hook, object).await? else { return Ok(None) };
    let patched = match call_webhook(admission, hook, &asked, true).await {
        Ok(verdict) => {
            let new = patched(admission, hook, &asked, object, &verdict).await;
            new.map(|new| new.map(|new| (new, verdict)))
        }
        Err(failure) => Err(failure),
    };
    let changed = matches_changed(&patched, object);
    place.note_mutation(admission.ctx, hook, changed);
    if let Some((new, verdict)) = apply_failure_policy(admission, hook, patched, place)?.flatten() {
        place.note_patch(admission.ctx, hook, verdict.patch.as_deref().unwrap_or_default());
        *object = new;
    }
    Ok(Some(changed))
}

/// Whether a patch has changed the object.
fn matches_changed<T>(patched: &std::result::Result<Option<(Value, T)>, Failure>, object: &Value) -> bool {
    matches!(patched, Ok(Some((new, _))) if new != object)
}

/// Applies the webhook's failure policy to an outcome; `None` if a failure is ignored.
fn apply_failure_policy<T>(
    admission: &Admission<'_>,
    hook: &Webhook,
    outcome: std::result::Result<T, Failure>,
    place: Invocation,
) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Call(why)) if hook.spec["failurePolicy"] == "Ignore" => {
            tracing::warn!(webhook = hook.name, why, "a webhook failed and is ignored");
            place.note_failed_open(admission.ctx, hook);
            Ok(None)
        }
        Err(Failure::Call(why)) => {
            Err(Status::internal(format!("failed calling webhook {}: {why}", quote(&hook.name))))
        }
        Err(Failure::Refused(status)) => Err(status),
    }
}

/// Matches a webhook against a request; `None` if the webhook is not to be called.
async fn match_request(admission: &Admission<'_>, hook: &Webhook, object: &Value) -> Result<Option<Asked>> {
    let Some(matched) = matches(admission, object, &hook.constraints) else { return Ok(None) };
    let shown = shown(admission.ctx, &matched.info, object).await?;
    let old = match admission.old {
        Some(old) => self::shown(admission.ctx, &matched.info, old).await?,
        None => Value::Null,
    };
    let request = request(admission, &matched);
    let null = Value::Null;
    let access = Access::of(admission.ctx);
    let inputs = Inputs {
        object: &shown,
        old: &old,
        request: &request,
        params: &null,
        namespace: &null,
        authorizer: Some(&access),
    };
    match hook.conditions.hold(&inputs) {
        Ok(holds) => Ok(holds.then_some(Asked { matched, object: shown, old })),
        Err(why) => {
            let info = &admission.ctx.info;
            Err(Status::not_admitted(&info.group, &info.plural, admission.name, &why))
        }
    }
}

/// Converts an object to the version for which a rule was written.
async fn shown(ctx: &RequestContext<'_>, info: &ResourceInfo, object: &Value) -> Result<Value> {
    let same = info.group == ctx.info.group && info.version == ctx.info.version;
    if same || object.is_null() { Ok(object.clone()) } else { convert(ctx, ctx.info, info, object).await }
}

/// Converts an object. A failure is an internal error, whatever the failure policy of the admission webhook.
async fn convert(
    ctx: &RequestContext<'_>,
    from: &ResourceInfo,
    to: &ResourceInfo,
    object: &Value,
) -> Result<Value> {
    let converted = ctx.services.converter.convert(from, to, object).await;
    converted.map_err(|status| Status::internal(status.message))
}

/// Calls a webhook.
async fn call_webhook(
    admission: &Admission<'_>,
    hook: &Webhook,
    asked: &Asked,
    mutating: bool,
) -> std::result::Result<Verdict, Failure> {
    let ctx = admission.ctx;
    if admission.dry_run && !matches!(hook.spec["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")) {
        let why = format!("admission webhook {} does not support dry run", quote(&hook.name));
        return Err(Failure::Refused(Status::bad_request(why)));
    }
    let question = question::new(admission, hook, asked).map_err(Failure::Call)?;
    let answer = post(ctx, hook, question.body()).await.map_err(Failure::Call)?;
    let verdict = answer::read(&answer, &question, mutating).map_err(Failure::Call)?;
    verdict.warnings.iter().for_each(|it| ctx.request.warn(it.as_str()));
    if let Some(trail) = ctx.audit {
        let annotations = verdict.annotations.iter();
        annotations.for_each(|(key, value)| trail.annotate(&format!("{}/{key}", hook.name), value));
    }
    if verdict.allowed { Ok(verdict) } else { Err(Failure::Refused(answer::refusal(&hook.name, &verdict))) }
}

/// Posts a review to a webhook, within its timeout.
async fn post(
    ctx: &RequestContext<'_>,
    hook: &Webhook,
    body: Bytes,
) -> std::result::Result<WebhookAnswer, String> {
    let seconds = hook.spec["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS);
    let answer = ctx.services.webhooks.post(&hook.spec["clientConfig"], seconds, body).await;
    answer.map_err(|error| match error {
        CallError::Config(why) => format!("could not get REST client: {why}"),
        CallError::Request(why) => format!("failed to call webhook: {why}"),
    })
}

/// Applies a webhook's patch; `None` if it does not change the object.
async fn patched(
    admission: &Admission<'_>,
    hook: &Webhook,
    asked: &Asked,
    object: &Value,
    verdict: &Verdict,
) -> std::result::Result<Option<Value>, Failure> {
    let ctx = &RequestContext { info: admission.part.unwrap_or(admission.ctx.info), ..*admission.ctx };
    let info = admission.part.map_or(&*asked.matched.info, |part| part);
    let Some(patch) = &verdict.patch else { return Ok(None) };
    let undecodable =
        |why: String| Failure::Call(format!("received undecodable patch in webhook response: {why}"));
    let patch = serde_json::from_slice(patch).map_err(|error| undecodable(error.to_string()))?;
    if patch == Value::Array(Default::default()) {
        return Ok(None);
    }
    let internal = |why: String| Failure::Refused(Status::internal(why));
    if object.is_null() {
        return Err(internal(format!(
            "admission webhook {} attempted to modify the object, which is not supported for this operation",
            quote(&hook.name)
        )));
    }
    let parsed = JsonPatch::parse(&patch).map_err(|error| undecodable(error.to_string()))?;
    let before = if admission.part.is_some() { object } else { &asked.object };
    let mut new = parsed.apply(before).map_err(|error| internal(error.to_string()))?;
    if let Some(schema) = types::builtin(&info.group, &info.version, &info.kind)
        && let Some(why) = strict_decoding::decode_value(schema, &info.kind, &new).refusal
    {
        return Err(internal(why));
    }
    let same = info.group == ctx.info.group && info.version == ctx.info.version;
    if !same {
        new = convert(ctx, info, ctx.info, &new).await.map_err(Failure::Refused)?;
    }
    let mut incoming = Incoming { object: new };
    // Unknown fields are dropped silently, because the webhook added them, not the client.
    let _ = incoming.shape(ctx, Some(object), Source::Mutated);
    Ok(Some(incoming.object))
}
