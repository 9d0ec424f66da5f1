//! Maintains the certificates in the Secret and the CA bundles in the configurations: reads them, asks the plan, and
//! writes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::issue::issue;
use super::plan::{self, Step};
use super::state::State;
use super::trust::{self, Trusting};
use crate::error::chain;
use crate::tls::Shown;
use crate::wake::{Pause, Wake};
use crate::webhook::Endpoint;

/// The field manager that owns the `caBundle`.
const FIELD_MANAGER: &str = "evenkeel-webhook-certificates";

/// How often everything is checked even though nothing changed, because a clock may have been set, or a watch may be
/// broken. The few reads every ten minutes are cheap, and often enough for certificates that last months.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// The pause after the first failure, which doubles with each further one.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// The longest pause after a failure, short enough for an administrator who has just granted a missing permission.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The longest pause after a conflict with another replica. All replicas write at once when they start.
const CONFLICT_PAUSE_MS: u64 = 200;

/// Connects the plan to the API server.
pub(super) struct Keeper {
    client: Client,
    env: Env,
    /// The namespace and name of the Secret.
    secret: (Arc<str>, Arc<str>),
    trusting: Vec<Trusting>,
    endpoint: Endpoint,
    names: Vec<String>,
    shown: Shown,
    /// The last contents of the Secret, to restore it if it is deleted or emptied.
    seen: State,
}

/// The result of one check.
enum Looked {
    /// Something was written; check again.
    Wrote,
    /// Another replica or a user wrote in between; check again.
    Conflict,
    /// There is nothing to do until this time.
    Rest(Timestamp),
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{action}: {source}")]
    Request { action: String, source: kube::Error },
    #[error("make a certificate: {0}")]
    Make(rcgen::Error),
    #[error("use the certificate: {0}")]
    Unusable(crate::tls::CertificateError),
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        env: Env,
        secret: (Arc<str>, Arc<str>),
        trusting: Vec<Trusting>,
        endpoint: Endpoint,
        shown: Shown,
    ) -> Self {
        let names = endpoint.server_names();
        Self { client, env, secret, trusting, endpoint, names, shown, seen: State::default() }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut wake = Wake::new(self.client.clone(), &self.env, "webhook certificates");
        wake.watch(&ApiResource::erase::<Secret>(&()), Some(&self.secret.0), &self.secret.1);
        for one in &self.trusting {
            wake.watch(&one.resource, None, &one.name);
        }
        let mut failures = 0;
        loop {
            let work = wake.take();
            let looked = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                looked = self.look() => looked,
            };
            let pause = self.pause_after(looked, &mut failures);
            // After a write comes another check, which takes over the pending work.
            let go_on = match pause {
                Some(pause) => {
                    drop(work);
                    wake.changed(pause, &stop).await
                }
                None => !stop.is_cancelled(),
            };
            if !go_on {
                return;
            }
        }
    }

    fn pause_after(&self, looked: Result<Looked, Failed>, failures: &mut u32) -> Option<Pause> {
        let error = match looked {
            Ok(looked) => {
                *failures = 0;
                self.shown.note(None);
                return match looked {
                    Looked::Wrote => None,
                    Looked::Conflict => {
                        let pause = self.env.random_below(CONFLICT_PAUSE_MS);
                        Some(Pause::Retry(Duration::from_millis(pause)))
                    }
                    Looked::Rest(until) => Some(Pause::Look(self.time_until(until).min(LOOK_EVERY))),
                };
            }
            Err(error) => error,
        };
        let problem = chain(&error);
        tracing::warn!(error = problem, "cannot keep the certificates of the webhooks");
        self.shown.note(Some(problem));
        let pause = RETRY_MIN.saturating_mul(1 << (*failures).min(16)).min(RETRY_MAX);
        *failures += 1;
        Some(Pause::Retry(pause))
    }

    fn time_until(&self, at: Timestamp) -> Duration {
        let left = at.duration_since(self.env.now());
        // One second later, because the plan compares whole seconds.
        Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1)
    }

    /// Reads everything, and takes at most one step.
    async fn look(&mut self) -> Result<Looked, Failed> {
        // The configurations must be read first; the documentation of `certificates` says why.
        let objects = self.read_trusting().await?;
        let secret = self.secrets().get_opt(&self.secret.1).await;
        let secret = secret.map_err(self.failed("read the Secret"))?;
        let state = secret.as_ref().map(State::read).unwrap_or_default();
        if state.is_blank() && !self.seen.is_blank() {
            tracing::warn!(name = %self.secret.1, "the Secret was emptied: writing it again");
            return self.write(secret, &self.seen.clone()).await;
        }
        if let Some(current) = &state.current
            && self.seen.current.as_ref() != Some(current)
        {
            self.shown.show(current.identity().map_err(Failed::Unusable)?);
            tracing::info!(until = %current.facts.until, "serving webhooks with a new certificate");
        }
        self.seen = state.clone();
        if !state.is_blank() && !self.publish(&objects, &state.bundle()).await? {
            return Ok(Looked::Conflict);
        }
        self.take_step(secret, state).await
    }

    async fn take_step(&self, secret: Option<Secret>, state: State) -> Result<Looked, Failed> {
        let now = self.env.now();
        let state = match plan::step(&state, &self.names, now) {
            Step::Wait(until) => return Ok(Looked::Rest(until)),
            Step::Make => {
                let names = plan::names_of_next(&state, &self.names);
                state.with_next(issue(&self.secret.1, &names, now).map_err(Failed::Make)?)
            }
            Step::NotePublished => state.published(now),
            Step::Promote => state.promoted(now),
            Step::Forget => state.without_expired(now),
        };
        self.write(secret, &state).await
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.secret.0)
    }

    async fn write(&self, secret: Option<Secret>, state: &State) -> Result<Looked, Failed> {
        let (namespace, name) = &self.secret;
        let exists = secret.is_some();
        let mut secret = secret.unwrap_or_default();
        state.write(&mut secret);
        secret.metadata.name = Some(name.to_string());
        secret.metadata.namespace = Some(namespace.to_string());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let written = match exists {
            // The resource version from the read makes the update conditional.
            true => self.secrets().replace(name, &params, &secret).await,
            false => self.secrets().create(&params, &secret).await,
        };
        match written {
            Ok(_) => Ok(Looked::Wrote),
            Err(error) if is_conflict(&error) => Ok(Looked::Conflict),
            Err(error) => Err(self.failed("write the Secret")(error)),
        }
    }

    fn failed(&self, action: &str) -> impl Fn(kube::Error) -> Failed + use<> {
        let action = format!("{action} {}/{}", self.secret.0, self.secret.1);
        move |source| Failed::Request { action: action.clone(), source }
    }

    /// Returns the configurations and CustomResourceDefinitions that exist.
    async fn read_trusting(&self) -> Result<Vec<(Trusting, Value)>, Failed> {
        let mut objects = Vec::new();
        for one in &self.trusting {
            let read = self.api(one).get_opt(&one.name).await;
            let object = read.map_err(|source| request_failed("read", one, source))?;
            let object = object.and_then(|object| serde_json::to_value(object).ok());
            objects.extend(object.map(|object| (one.clone(), object)));
        }
        Ok(objects)
    }

    fn api(&self, one: &Trusting) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &one.resource)
    }

    /// Makes every configuration trust the bundle. Returns `false` if one has changed since it was read.
    async fn publish(&self, objects: &[(Trusting, Value)], bundle: &str) -> Result<bool, Failed> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        for (one, object) in objects {
            let Some(change) = trust::change(object, &self.endpoint, bundle) else { continue };
            match self.api(one).patch(&one.name, &params, &Patch::Apply(&change)).await {
                Ok(_) => tracing::info!(kind = one.resource.kind, name = one.name, "wrote the caBundle"),
                Err(error) if is_conflict(&error) => return Ok(false),
                Err(source) => return Err(request_failed("write the caBundle of", one, source)),
            }
        }
        Ok(true)
    }
}

fn request_failed(action: &str, one: &Trusting, source: kube::Error) -> Failed {
    Failed::Request { action: format!("{action} {} {}", one.resource.kind, one.name), source }
}

/// Whether another client has written, created or deleted the object since it was read.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 404)
}
