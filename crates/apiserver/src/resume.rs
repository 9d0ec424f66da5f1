//! Completion of operations that a previous process left unfinished in the store.
//!
//! A process may be killed between two writes of one operation. Each operation in this table can be
//! interrupted there, because the component in the last column completes it from the stored state:
//!
//! | operation | writes | completed by |
//! |---|---|---|
//! | create or update a CRD | the CRD, its status | [`Definitions::resume`] |
//! | delete a CRD | its deletion timestamp, its custom resources, its conditions, its removal | [`Definitions::resume`] |
//! | remove the last custom resource of a CRD that is being deleted | the custom resource, the CRD | [`Definitions::resume`] |
//! | delete a pod that no node runs | its deletion timestamp, its removal | [`remove_marked_pods`] |
//! | create an object that a quota counts | the quota's usage, the object | the quota controller, which recounts |
//! | evict a pod | the budget, the pod's condition, its deletion | the disruption controller, which recounts, and the client |
//! | delete a collection | its objects, one by one | the client, which got no response |
//! | start a cluster | the objects of [`bootstrap`](crate::bootstrap) | the next start, which creates the missing ones |
//!
//! State that exists only in memory (allocated addresses and ports, roles, admission policies, served
//! resources) is rebuilt from the store at startup.

use evenkeel_schema::json::Value;
use evenkeel_store::{Expect, Op, Range, Store, Write, WriteError};

use crate::crd::Definitions;
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::{Header, storage};

/// Completes the operations that a previous process left unfinished.
pub(crate) async fn resume(definitions: &Definitions, store: &Store<Header>) -> Result<()> {
    definitions.resume().await?;
    remove_marked_pods(store).await
}

/// Removes pods that are to be deleted immediately but still exist: no node runs them, and no finalizer holds
/// them.
async fn remove_marked_pods(store: &Store<Header>) -> Result<()> {
    let range = Range { prefix: storage_prefix("", "pods"), ..Range::default() };
    let page = store.range(&range).map_err(Status::internal)?;
    let marked = page.entries.iter().filter(|it| it.header.deleting && !it.header.finalizers);
    let at_once = marked.filter(|it| {
        let pod: Option<Value> = storage::read_or_skip(it);
        pod.is_some_and(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0)
    });
    let writes = at_once.map(|entry| Write {
        key: entry.key.clone(),
        expect: Expect::Revision(entry.revision),
        op: Op::Delete,
    });
    for outcome in store.write_all(writes.collect()).await {
        match outcome {
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(Status::internal(error)),
        }
    }
    Ok(())
}
