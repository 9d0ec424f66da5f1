//! The objects of a new cluster, which clients, controllers and users expect to exist.
//!
//! In Kubernetes, the API server creates them at startup; here they are generated from compact tables in
//! `facts/`. All clusters of a process share one such state, which is created once and copied on write, so
//! that a further cluster costs almost nothing.

mod objects;
mod rbac;

use std::sync::OnceLock;

use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_schema::json::Value;
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::{Entry, Expect, Options, Store, Write, WriteError};

use crate::Header;
use crate::registry::storage_prefix;
use crate::storage;
use crate::storage::StorableObject;

/// The range of the cluster IPs of services.
pub const SERVICE_CIDR: &str = "10.96.0.0/12";
/// The cluster IP of the service `default/kubernetes`: the first one of the range.
pub const SERVICE_IP: &str = "10.96.0.1";

/// The address in the endpoints of `default/kubernetes` until [`advertise`] sets another. The server of an
/// in-process cluster has no address, so this one is from a range reserved for documentation.
const NO_ADDRESS: (&str, u16) = ("192.0.2.1", 6443);

/// The seed of the UIDs that clusters in virtual time share, so that they are the same in every process.
const SHARED_SEED: u64 = 0x6b65_656c;

/// An object to be created, and its key in the store.
struct Seed {
    key: String,
    object: Value,
}

impl Seed {
    /// Creates a seed of this kind; the namespace is empty for cluster-scoped kinds.
    fn new(
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        mut object: Value,
    ) -> Self {
        let (group, _) = evenkeel_schema::api_resources::split_api_version(api_version);
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

    /// Returns the write that creates the object, with a new UID.
    fn write(mut self, env: &Env, now: &str) -> Write<Header> {
        self.object["metadata"]["uid"] = env.uid().into();
        self.object["metadata"]["creationTimestamp"] = now.into();
        let storable = StorableObject::new(&mut self.object)
            .expect("the objects of a new cluster are small and shallow");
        Write { key: self.key.into(), expect: Expect::Absent, op: storable.into_op() }
    }
}

/// Creates a store in memory with all objects of a new cluster.
///
/// The clusters of a process share its initial state. Clusters in virtual time all start at the same moment.
/// Clusters in real time get the creation timestamps of the first of them, but UIDs of their own.
pub async fn memory(env: &Env, options: Options) -> Store<Header> {
    let shared = match env.seed() {
        Some(_) if env.now() == evenkeel_env::EPOCH => shared(&VIRTUAL, &Env::seeded(SHARED_SEED)).await,
        // In real time, no two objects may share a UID.
        None => {
            return shared(&REAL, env)
                .await
                .fork_with(env.clone(), options, |entry| with_new_uid(entry, env));
        }
        // Virtual time has advanced, so the objects need other creation timestamps.
        Some(_) => {
            let store = Store::memory(env.clone(), options);
            fill(&store, env).await;
            return store;
        }
    };
    shared.fork(env.clone(), options)
}

/// Returns an object with a new UID. Both UIDs have the same length, so the bytes are replaced in place.
fn with_new_uid(entry: &Entry<Header>, env: &Env) -> (Bytes, Header) {
    let (old, new) = (&entry.header.uid, env.uid());
    let mut bytes = entry.value.to_vec();
    let metadata = entry.header.version_at as usize..entry.header.metadata_end as usize;
    let at = memchr::memmem::rfind(&bytes[metadata.clone()], old.as_bytes());
    if let Some(at) = at.filter(|_| old.len() == new.len()) {
        bytes[metadata.start + at..][..new.len()].copy_from_slice(new.as_bytes());
    }
    let header = Header { uid: new.into(), ..entry.header.clone() };
    (bytes.into(), header)
}

/// Creates those objects of a new cluster that are missing, and leaves the others unchanged.
///
/// # Errors
/// Fails if the store accepts no writes.
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
    let mut writes: Vec<_> = objects::seeds(&now).into_iter().map(|seed| seed.write(env, &now)).collect();
    writes.extend(rbac::writes(env, &now));
    store.write_all(writes).await
}

type Outcome = Result<evenkeel_store::Written<Header>, WriteError<Header>>;

/// The initial state of clusters in virtual time.
static VIRTUAL: OnceLock<Store<Header>> = OnceLock::new();
/// The initial state of clusters in real time.
static REAL: OnceLock<Store<Header>> = OnceLock::new();

async fn shared(beginning: &'static OnceLock<Store<Header>>, env: &Env) -> &'static Store<Header> {
    if let Some(store) = beginning.get() {
        return store;
    }
    // The shared store needs its own `Env`: it must not keep the ledger of the first cluster alive.
    let world = if env.seed().is_some() { env.clone() } else { Env::system() };
    let store = Store::memory(world.clone(), Options::default());
    fill(&store, &world).await;
    beginning.get_or_init(|| store)
}

/// Sets the address of the API server in `default/kubernetes` and its endpoints.
///
/// # Errors
/// Fails if the store accepts no writes.
pub async fn advertise(store: &Store<Header>, address: &str, port: u16) -> Result<(), WriteError<Header>> {
    for seed in objects::endpoints(address, port).into_iter().chain([objects::service(port)]) {
        let Some(entry) = store.get(&seed.key) else { continue };
        let Some(mut object) = storage::read_or_skip::<Value>(&entry) else { continue };
        for (field, value) in seed.object.as_object().into_iter().flatten() {
            if field != "metadata" {
                object[field] = value.clone();
            }
        }
        match StorableObject::new(&mut object) {
            Ok(storable) if *storable.bytes() == entry.value => {}
            Ok(storable) => {
                let op = storable.into_op();
                store.write(Write { key: seed.key.into(), expect: Expect::Any, op }).await?;
            }
            Err(status) => {
                tracing::error!(
                    key = seed.key,
                    why = status.message,
                    "an object cannot be brought up to date"
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
