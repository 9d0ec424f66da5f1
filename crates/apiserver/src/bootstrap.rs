//! What is there after boot: the objects that clients, controllers and people look for in a new cluster.
//!
//! Kubernetes' own start makes them; here they come out of compact facts. A cluster in virtual time always starts at
//! the same moment, so all such clusters of a process share one state, made once: the five-hundredth costs a pointer.

mod objects;
mod rbac;

use std::sync::OnceLock;

use evenkeel_env::Env;
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::{Expect, Op, Options, Store, Write, WriteError};
use serde_json::{Value, json};

use crate::Header;
use crate::header::seal;
use crate::registry::storage_prefix;

/// The addresses that services get.
pub const SERVICE_CIDR: &str = "10.96.0.0/12";
/// The address of the service `default/kubernetes`: the first of the range.
pub const SERVICE_IP: &str = "10.96.0.1";

/// Where the endpoints of `default/kubernetes` point to unless [`advertise`] says better: an address that is reserved
/// for documentation, since the server of a cluster in process has none.
const NO_ADDRESS: (&str, u16) = ("192.0.2.1", 6443);

/// The seed of the uids that clusters in virtual time share.
const SHARED_SEED: u64 = 0x6b65_656c;

/// An object to be made, and where it lies.
struct Seed {
    key: String,
    object: Value,
}

impl Seed {
    /// A seed of this kind; the namespace is empty for cluster-scoped kinds.
    fn new(
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        mut object: Value,
    ) -> Self {
        let (group, _) = evenkeel_schema::kinds::split_api_version(api_version);
        let prefix = storage_prefix(group, plural);
        let key = if namespace.is_empty() {
            format!("{prefix}{name}")
        } else {
            format!("{prefix}{namespace}/{name}")
        };
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        Self { key, object }
    }

    fn generation(mut self) -> Self {
        self.object["metadata"]["generation"] = 1.into();
        self
    }

    /// The write that makes the object, with an identity of its own.
    fn write(mut self, env: &Env, now: &str) -> Write<Header> {
        self.object["metadata"]["uid"] = env.uid().into();
        self.object["metadata"]["creationTimestamp"] = now.into();
        let (bytes, header) = seal(&self.object);
        Write { key: self.key.into(), expect: Expect::Absent, op: Op::Put(bytes, header) }
    }
}

/// A store in memory with everything that is there after boot.
pub async fn memory(env: &Env, options: Options) -> Store<Header> {
    if env.seed().is_some() && env.now() == evenkeel_env::EPOCH {
        return shared().await.fork(env.clone(), options);
    }
    let store = Store::memory(env.clone(), options);
    fill(&store, env).await;
    store
}

/// Makes what is missing of the objects that are there after boot, and leaves the rest as it is.
///
/// # Errors
/// Fails where the store takes no writes.
pub async fn prepare(store: &Store<Header>, env: &Env) -> Result<(), WriteError<Header>> {
    for outcome in fill(store, env).await {
        match outcome {
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn fill(store: &Store<Header>, env: &Env) -> Vec<Outcome> {
    let now = time::print(env.now(), Precision::Seconds);
    let seeds = objects::seeds(&now).into_iter().chain(rbac::seeds());
    store.write_all(seeds.map(|seed| seed.write(env, &now)).collect()).await
}

type Outcome = Result<evenkeel_store::Written<Header>, WriteError<Header>>;

/// The state that clusters in virtual time begin with.
async fn shared() -> &'static Store<Header> {
    static SHARED: OnceLock<Store<Header>> = OnceLock::new();
    if let Some(store) = SHARED.get() {
        return store;
    }
    let env = Env::seeded(SHARED_SEED);
    let store = Store::memory(env.clone(), Options::default());
    let now = time::print(evenkeel_env::EPOCH, Precision::Seconds);
    let seeds = objects::seeds(&now).into_iter().chain(rbac::seeds());
    store.write_all(seeds.map(|seed| seed.write(&env, &now)).collect()).await;
    SHARED.get_or_init(|| store)
}

/// Tells the cluster where its API server is reached: `default/kubernetes` and its endpoints.
///
/// # Errors
/// Fails where the store takes no writes.
pub async fn advertise(store: &Store<Header>, address: &str, port: u16) -> Result<(), WriteError<Header>> {
    for seed in objects::endpoints(address, port).into_iter().chain([objects::service(port)]) {
        let Some(entry) = store.get(&seed.key) else { continue };
        let mut object: Value = serde_json::from_slice(&entry.value).unwrap_or_else(|_| json!({}));
        for (field, value) in seed.object.as_object().into_iter().flatten() {
            if field != "metadata" {
                object[field] = value.clone();
            }
        }
        let (bytes, header) = seal(&object);
        if bytes != entry.value {
            let op = Op::Put(bytes, header);
            store.write(Write { key: seed.key.into(), expect: Expect::Any, op }).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
