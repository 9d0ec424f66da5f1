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
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::issue::issue;
use super::plan::{self, Step};
use super::state::{Pair, State};
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
    /// What this replica serves with.
    serving: Option<Pair>,
    /// The CA of the next certificate, and since when every look found that all configurations trust it.
    trusted: Option<(String, Instant)>,
    /// The bundles that the last look wrote, which the next one must find.
    written: Vec<(Trusting, String)>,
}

/// Whether the configurations contain the bundle.
enum Published {
    /// Every configuration has the bundle.
    Held,
    /// The bundle was written to at least one configuration.
    Wrote,
    /// Somebody else has changed a configuration in the meantime.
    Conflict,
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
    #[error("the caBundle that was written to {0} is not kept: somebody else changes or removes it")]
    Undone(String),
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
        Self {
            client,
            env,
            secret,
            trusting,
            endpoint,
            names,
            shown,
            seen: State::default(),
            serving: None,
            trusted: None,
            written: Vec::new(),
        }
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
        if let Some(own) = self.displaced(&objects, &state) {
            tracing::warn!(name = %self.secret.1, "somebody replaced the certificate by one that is not trusted yet");
            return self.write(secret, &state.reinstated(own)).await;
        }
        self.seen = state.clone();
        if self.shown.check(self.env.now()).is_err() {
            // Even a certificate that is not trusted is better than none.
            self.serve(&state)?;
        }
        match self.publish(&objects, &state).await? {
            Published::Conflict => return Ok(Looked::Conflict),
            Published::Wrote => return Ok(Looked::Wrote),
            Published::Held => {}
        }
        self.serve(&state)?;
        self.take_step(secret, state).await
    }

    /// The certificate that this replica serves with, if the Secret knows nothing of it and holds one instead that a
    /// configuration does not trust. No renewal leads there: somebody replaced the Secret, for example by an old copy.
    fn displaced(&self, objects: &[(Trusting, Value)], state: &State) -> Option<Pair> {
        let own = self.serving.as_ref().filter(|own| own.facts.is_valid(self.env.now()))?;
        if state.knows(&own.ca) {
            return None;
        }
        let trusts = |ca: &str| objects.iter().all(|(_, object)| trust::trusts(object, &self.endpoint, ca));
        let usable = state.current.as_ref().is_some_and(|current| trusts(&current.ca));
        (!usable).then(|| own.clone())
    }

    /// Serves with the current certificate from now on.
    fn serve(&mut self, state: &State) -> Result<(), Failed> {
        let Some(current) = &state.current else { return Ok(()) };
        if self.serving.as_ref() != Some(current) {
            self.shown.show(current.identity().map_err(Failed::Unusable)?);
            self.serving = Some(current.clone());
            tracing::info!(until = %current.facts.until, "serving webhooks with a new certificate");
        }
        Ok(())
    }

    /// How long this replica has seen that every configuration trusts the next certificate.
    fn trusted_for(&self) -> Duration {
        self.trusted.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    async fn take_step(&self, secret: Option<Secret>, state: State) -> Result<Looked, Failed> {
        let now = self.env.now();
        let state = match plan::step(&state, &self.names, now, self.trusted_for()) {
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

    /// Makes every configuration trust what the Secret holds, and notes since when they are seen to trust the next
    /// certificate.
    async fn publish(&mut self, objects: &[(Trusting, Value)], state: &State) -> Result<Published, Failed> {
        let noted = self.trusted.take();
        let published = match state.is_blank() {
            true => Published::Held,
            false => self.write_bundle(objects, &state.bundle()).await?,
        };
        let next = state.next.as_ref().filter(|_| matches!(published, Published::Held));
        self.trusted = next.map(|next| match noted {
            Some((ca, since)) if ca == next.pair.ca => (ca, since),
            _ => (next.pair.ca.clone(), Instant::now()),
        });
        Ok(published)
    }

    async fn write_bundle(
        &mut self,
        objects: &[(Trusting, Value)],
        bundle: &str,
    ) -> Result<Published, Failed> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let before = std::mem::take(&mut self.written);
        let mut undone = None;
        for (one, object) in objects {
            let Some(change) = trust::change(object, &self.endpoint, bundle) else { continue };
            match self.api(one).patch(&one.name, &params, &Patch::Apply(&change)).await {
                Ok(_) => tracing::info!(kind = one.resource.kind, name = one.name, "wrote the caBundle"),
                Err(error) if is_conflict(&error) => return Ok(Published::Conflict),
                Err(source) => return Err(request_failed("write the caBundle of", one, source)),
            }
            let written = (one.clone(), bundle.to_owned());
            if before.contains(&written) {
                undone = Some(format!("{} {}", one.resource.kind, one.name));
            }
            self.written.push(written);
        }
        match undone {
            Some(what) => Err(Failed::Undone(what)),
            None if self.written.is_empty() => Ok(Published::Held),
            None => Ok(Published::Wrote),
        }
    }
}

fn request_failed(action: &str, one: &Trusting, source: kube::Error) -> Failed {
    Failed::Request { action: format!("{action} {} {}", one.resource.kind, one.name), source }
}

/// Whether another client has written, created or deleted the object since it was read.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 404)
}
