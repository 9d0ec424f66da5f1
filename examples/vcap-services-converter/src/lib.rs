//! An operator that brings Cloud Foundry's services to Kubernetes: a `VcapServicesConverter` names a Secret that holds
//! `VCAP_SERVICES`, and the operator creates a Secret for each service in it.
//!
//! - An index finds the converters that name a changed Secret, without listing all of them.
//! - Bad JSON is reported in the status, without any content of the Secret. Secrets that were created before stay.
//! - If very many Secrets change at once, writes are limited to [`WRITES_A_SECOND`].

mod resource;
pub mod vcap;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::cli::Operator;
use evenkeel::conditions::NewCondition;
use evenkeel::k8s_openapi::ByteString;
use evenkeel::k8s_openapi::api::core::v1::Secret;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use evenkeel::prelude::*;
use evenkeel::{ContextError, Index, Request, Result};

pub use resource::{VcapServicesConverter, VcapServicesConverterSpec, VcapServicesConverterStatus};

use vcap::Services;

/// The name of the operator and of its controller.
pub const NAME: &str = "vcap-services-converter";

/// A sample Secret and converter.
pub const SAMPLE: &str = include_str!("../samples/bindings.yaml");

/// The rate of writes after the burst: a tenth of what a small API server can handle.
pub const WRITES_A_SECOND: f64 = 20.0;

/// The burst of writes: large enough that a user who changes one Secret never waits.
pub const WRITES_AT_ONCE: u32 = 40;

/// How many converters are reconciled concurrently.
const WORKERS: usize = 4;

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, |manager| manager.controller(controller()))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Makes a Secret of each service in a Cloud Foundry VCAP_SERVICES.")
        .crd(VcapServicesConverter::crd())
        .samples(SAMPLE)
        .verbs(include_str!("../verbs.txt"))
}

evenkeel::kinds! {
    /// The kinds of the controller of converters.
    pub struct ConverterKinds for VcapServicesConverter {
        owns Secret,
    }
}

/// The context of the controller's functions.
type Ctx = evenkeel::Ctx<(), ConverterKinds>;

/// The controller. It reconciles a converter whenever it, one of its Secrets, or the Secret that it names changes.
pub fn controller() -> Controller<VcapServicesConverter> {
    let by_source = Index::new("source", |converter: &VcapServicesConverter| {
        vec![Request::new(converter.namespace().as_deref(), converter.spec.secret_name.as_str()).to_string()]
    });
    Controller::new(NAME, reconcile)
        .watches_indexed(by_source, |secret: &Secret| vec![Request::of(secret).to_string()])
        .max_concurrent(WORKERS)
        .write_limit(WRITES_A_SECOND, WRITES_AT_ONCE)
}

/// A problem that persists until the spec or a Secret changes.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error("there is no Secret {0}")]
    NoSecret(String),
    #[error("the Secret {secret} has no key {key}")]
    NoKey { secret: String, key: String },
    #[error("{key} in the Secret {secret}: {source}")]
    Unreadable { secret: String, key: String, source: vcap::VcapError },
    #[error("the Secret {0} exists already, and is not of this converter")]
    Taken(String),
    #[error("{0}")]
    Refused(ContextError),
}

impl Obstacle {
    fn reason(&self) -> &'static str {
        match self {
            Self::NoSecret(_) => "SecretNotFound",
            Self::NoKey { .. } => "KeyNotFound",
            Self::Unreadable { .. } => "InvalidJson",
            Self::Taken(_) => "NameTaken",
            Self::Refused(_) => "Refused",
        }
    }
}

async fn reconcile(converter: Arc<VcapServicesConverter>, ctx: Ctx) -> Result<Action> {
    let mut status = converter.status.clone().unwrap_or_default();
    status.observed_generation = converter.metadata.generation;
    let converted = match services(&converter, &ctx)? {
        Ok(services) => convert(&converter, &ctx, services).await?,
        Err(obstacle) => Err(obstacle),
    };
    let condition = match converted {
        Ok(secrets) => {
            let message = format!("{} services are converted", secrets.len());
            status.secrets = secrets;
            NewCondition::new("Converted", true, "Converted", message)
        }
        // No retry: a change of the Secret or of the spec triggers the next reconcile.
        Err(obstacle) => NewCondition::new("Converted", false, obstacle.reason(), obstacle.to_string()),
    };
    ctx.set_condition(&mut status.conditions, condition.observed(&converter));
    ctx.status(&converter, status).await?;
    Ok(Action::await_change())
}

/// The services in the Secret that the converter names.
fn services(
    converter: &VcapServicesConverter,
    ctx: &Ctx,
) -> Result<Result<Services, Obstacle>, ContextError> {
    let (secret, key) = (converter.spec.secret_name.clone(), converter.spec.key.clone());
    let Some(source) = ctx.get::<Secret>(&secret)? else { return Ok(Err(Obstacle::NoSecret(secret))) };
    let Some(ByteString(bytes)) = source.data.as_ref().and_then(|data| data.get(&key)) else {
        return Ok(Err(Obstacle::NoKey { secret, key }));
    };
    let parsed = vcap::parse(&String::from_utf8_lossy(bytes));
    Ok(parsed.map_err(|source| Obstacle::Unreadable { secret, key, source }))
}

/// Creates, updates and deletes the converter's Secrets to match these services. Returns their names.
async fn convert(
    converter: &VcapServicesConverter,
    ctx: &Ctx,
    services: Services,
) -> Result<Result<Vec<String>, Obstacle>, ContextError> {
    let ours: BTreeMap<String, Arc<Secret>> =
        ctx.children::<Secret>()?.into_iter().map(|secret| (secret.name_any(), secret)).collect();
    let mut names = Vec::new();
    for (service, values) in services {
        let name = format!("{}-{service}", converter.name_any());
        let data: BTreeMap<String, ByteString> =
            values.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))).collect();
        match ours.get(&name) {
            Some(secret) if secret.data.clone().unwrap_or_default() == data => {}
            // An apply would take over a Secret that does not belong to this converter.
            None if ctx.get::<Secret>(&name)?.is_some() => return Ok(Err(Obstacle::Taken(name))),
            _ => match ctx.apply(secret(&name, data)).await {
                Ok(_) => {}
                Err(error) if error.is_invalid() => return Ok(Err(Obstacle::Refused(error))),
                Err(error) => return Err(error),
            },
        }
        names.push(name);
    }
    let keep: Vec<&str> = names.iter().map(String::as_str).collect();
    ctx.prune::<Secret>(&keep, |_| true).await?;
    Ok(Ok(names))
}

fn secret(name: &str, data: BTreeMap<String, ByteString>) -> Secret {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
    Secret { metadata, data: Some(data), ..Default::default() }
}
