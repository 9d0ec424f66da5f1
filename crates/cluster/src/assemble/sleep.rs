//! Lets the built-in controllers sleep until one of their resources is used, and creates the objects that they would
//! create in every cluster.
//!
//! A new cluster always has the same objects, including those of its controllers. Clusters in virtual time begin with a
//! state that is made once for the process; other new clusters create the controllers' objects before they start. From
//! then on, the changes in the store show which resources are used; see
//! [`ResourceUse`](evenkeel_runtime::resource_use::ResourceUse).

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_apiserver::{ApiServer, Header, Options as ServerOptions, User, bootstrap};
use evenkeel_controllers::{Options as ControllerOptions, initial_objects};
use evenkeel_env::{Env, HashMap};
use evenkeel_runtime::resource_use::ResourceUse;
use evenkeel_store::{Entry, Options as StoreOptions, Range, Store, Watch, WatchError};
use kube::Client;
use parking_lot::Mutex;

use crate::cluster::Follower;
use crate::operator::CONTROLLERS;
use crate::transport::{Backend, DEFAULT_NAMESPACE, Transport, WebhookTransport, Wire};

/// The seed for the UIDs of the prepared objects, so that they are equal in every process.
const PREPARED_SEED: u64 = 0x6e6f_6465;

/// How many prepared states are kept, of about a megabyte each: one for each number of nodes that the tests of a
/// process use.
const PREPARED_MAX: usize = 8;

/// States of new clusters in virtual time whose controllers have nothing left to do, by the number of nodes.
static PREPARED: Mutex<BTreeMap<usize, Store<Header>>> = Mutex::new(BTreeMap::new());

/// Returns a store with the state of a new cluster in virtual time whose controllers have nothing left to do.
///
/// # Errors
/// Fails if the API server refuses one of the objects.
pub(super) fn prepared(
    env: &Env,
    limits: StoreOptions,
    options: &ControllerOptions,
) -> Result<Store<Header>, PrepareError> {
    let count = options.nodes.count;
    if let Some(store) = PREPARED.lock().get(&count) {
        return Ok(store.fork(env.clone(), limits));
    }
    // The state must depend only on the options, and the run of the first cluster in a process must not depend on the
    // making of the state. So the state is made in a runtime of its own.
    let make = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.map_err(PrepareError::Runtime)?.block_on(make(options))
    };
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    let store = made.map_err(|_| PrepareError::Panic)??;
    let mut prepared = PREPARED.lock();
    if prepared.len() >= PREPARED_MAX {
        prepared.pop_last();
    }
    Ok(prepared.entry(count).or_insert(store).fork(env.clone(), limits))
}

/// The initial state of clusters cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    #[error("cannot start a runtime")]
    Runtime(#[source] std::io::Error),
    #[error("the thread that prepares them has panicked")]
    Panic,
    #[error(transparent)]
    Refused(#[from] kube::Error),
}

async fn make(options: &ControllerOptions) -> Result<Store<Header>, PrepareError> {
    let world = Env::seeded(PREPARED_SEED);
    let store = bootstrap::memory(&world, StoreOptions::default()).await;
    let server = ApiServer::new(store.clone(), world.clone(), ServerOptions::default());
    complete(&server, &world, options).await?;
    Ok(store)
}

/// Creates the objects that the controllers create in every new cluster.
///
/// # Errors
/// Fails if the API server refuses one of the objects.
pub(super) async fn complete(
    server: &ApiServer,
    env: &Env,
    options: &ControllerOptions,
) -> Result<(), kube::Error> {
    let webhooks = Arc::new(WebhookTransport::new(env, false));
    let wire = Arc::new(Wire::new(Backend::Embedded(server.clone()), env.clone(), false, webhooks));
    let user = Some(User::admin());
    let transport =
        Transport { wire, by: CONTROLLERS.into(), user, process: None, installs: false, quiet: false };
    initial_objects(&Client::new(transport, DEFAULT_NAMESPACE), env, options).await
}

/// Follows the use of the resources in a store. If `at_rest`, the controllers have nothing left to do for the objects
/// that are in the store now, and these count as initial objects that need no attention.
pub(super) fn follow(store: &Store<Header>, at_rest: bool) -> (ResourceUse, Option<Follower>) {
    let uses = ResourceUse::default();
    let revision = store.revision();
    let all = store.range(&Range::default()).map(|page| page.entries).unwrap_or_default();
    match at_rest {
        true => note_initial(&uses, &all),
        false => all.iter().for_each(|entry| note_use(&uses, &entry.key, revision)),
    }
    let task = store.watch("", revision).ok().map(|watch| tokio::spawn(tell(uses.clone(), watch)));
    (uses, task.map(Follower))
}

/// Records the resources of initial objects. If the resource of an owner is used, the resources of its dependents count
/// as used too, because the garbage collector must follow them from then on.
fn note_initial(uses: &ResourceUse, all: &[Arc<Entry<Header>>]) {
    let mut by_uid: HashMap<&str, (&str, &str)> = HashMap::default();
    for entry in all {
        let Some(resource) = resource_of(&entry.key) else { continue };
        uses.initial(resource.0, resource.1);
        by_uid.insert(&entry.header.uid, resource);
    }
    for entry in all.iter().filter(|entry| !entry.header.owners.is_empty()) {
        let owners = entry.header.owners.iter().filter_map(|uid| by_uid.get(&**uid));
        for (owner, dependent) in owners.zip(std::iter::repeat(resource_of(&entry.key))) {
            dependent.into_iter().for_each(|dependent| uses.entails(*owner, dependent));
        }
    }
}

async fn tell(uses: ResourceUse, mut watch: Watch<Header>) {
    // The watch holds the work of a change until the next change is requested. By then, the parts that the change wakes
    // hold work of their own.
    loop {
        let change = match watch.next().await {
            Ok(change) => change,
            // The cluster ends.
            Err(WatchError::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "the controllers no longer hear of the first use of a resource");
                return;
            }
        };
        let entry = change.after.as_ref().or(change.before.as_ref());
        entry.into_iter().for_each(|entry| note_use(&uses, &entry.key, change.revision));
    }
}

fn note_use(uses: &ResourceUse, key: &str, revision: u64) {
    if let Some((group, plural)) = resource_of(key) {
        uses.used(group, plural, revision);
    }
}

/// Returns the group and the plural of the resource that a key of the store belongs to.
fn resource_of(key: &str) -> Option<(&str, &str)> {
    let mut parts = key.strip_prefix("/registry/")?.splitn(3, '/');
    let (group, plural) = (parts.next()?, parts.next()?);
    Some((if group == "core" { "" } else { group }, plural))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_their_resources() {
        assert_eq!(resource_of("/registry/core/pods/default/a"), Some(("", "pods")));
        assert_eq!(resource_of("/registry/apps/deployments/default/a"), Some(("apps", "deployments")));
        assert_eq!(resource_of("/other/apps/deployments/default/a"), None);
    }

    /// A resource whose objects were stored under the keys of another one would sleep forever. Events are served in two
    /// groups and stored in one of them, but no controller watches them.
    #[tokio::test]
    async fn every_resource_but_events_has_keys_of_its_own() {
        let env = Env::seeded(1);
        let server =
            ApiServer::new(bootstrap::memory(&env, StoreOptions::default()).await, env, Default::default());
        for info in server.registry().all() {
            let (group, plural) = (info.group.as_str(), info.plural.as_str());
            let stored = resource_of(&info.prefix);
            assert!(stored == Some((group, plural)) || plural == "events", "{group} {plural}");
        }
    }
}
