//! What is there after boot: the objects that clients, controllers and people look for in a new cluster.
//!
//! Kubernetes' own start makes them; here they come out of compact facts. The clusters of a process share one such
//! state, made once and copied when it is changed: the five-hundredth costs a pointer.

mod objects;
mod rbac;

use std::sync::OnceLock;

use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::{Entry, Expect, Op, Options, Store, Write, WriteError};
use serde_json::Value;

use crate::Header;
use crate::header::seal;
use crate::registry::storage_prefix;
use crate::stored;

/// The addresses that services get.
pub const SERVICE_CIDR: &str = "10.96.0.0/12";
/// The address of the service `default/kubernetes`: the first of the range.
pub const SERVICE_IP: &str = "10.96.0.1";

/// Where the endpoints of `default/kubernetes` point to unless [`advertise`] says better: an address that is reserved
/// for documentation, since the server of a cluster in process has none.
const NO_ADDRESS: (&str, u16) = ("192.0.2.1", 6443);

/// The seed of the uids that clusters in virtual time share, so that they are the same in every process.
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
///
/// Its beginning is shared by the clusters of a process: those in virtual time all start at the same moment, and those
/// in real time take the moment at which the first of them started, with uids of their own.
pub async fn memory(env: &Env, options: Options) -> Store<Header> {
    let shared = match env.seed() {
        Some(_) if env.now() == evenkeel_env::EPOCH => shared(&VIRTUAL, &Env::seeded(SHARED_SEED)).await,
        // In the real world no two objects share a uid.
        None => return shared(&REAL, env).await.fork_with(env.clone(), options, |entry| renamed(entry, env)),
        // Virtual time that has moved on: its objects are of that time.
        Some(_) => {
            let store = Store::memory(env.clone(), options);
            fill(&store, env).await;
            return store;
        }
    };
    shared.fork(env.clone(), options)
}

/// The same object with a uid of its own. The bytes that differ are in their place: both are of one length.
fn renamed(entry: &Entry<Header>, env: &Env) -> (Bytes, Header) {
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
    let mut writes: Vec<_> = objects::seeds(&now).into_iter().map(|seed| seed.write(env, &now)).collect();
    writes.extend(rbac::writes(env, &now));
    store.write_all(writes).await
}

type Outcome = Result<evenkeel_store::Written<Header>, WriteError<Header>>;

/// What clusters in virtual time begin with.
static VIRTUAL: OnceLock<Store<Header>> = OnceLock::new();
/// What clusters in real time begin with.
static REAL: OnceLock<Store<Header>> = OnceLock::new();

async fn shared(beginning: &'static OnceLock<Store<Header>>, env: &Env) -> &'static Store<Header> {
    if let Some(store) = beginning.get() {
        return store;
    }
    // A world of its own: the ledger of the first cluster must not outlive it here.
    let world = if env.seed().is_some() { env.clone() } else { Env::system() };
    let store = Store::memory(world.clone(), Options::default());
    fill(&store, &world).await;
    beginning.get_or_init(|| store)
}

/// Tells the cluster where its API server is reached: `default/kubernetes` and its endpoints.
///
/// # Errors
/// Fails where the store takes no writes.
pub async fn advertise(store: &Store<Header>, address: &str, port: u16) -> Result<(), WriteError<Header>> {
    for seed in objects::endpoints(address, port).into_iter().chain([objects::service(port)]) {
        let Some(entry) = store.get(&seed.key) else { continue };
        let Some(mut object) = stored::read_or_skip::<Value>(&entry) else { continue };
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
