//! What a server takes up when it starts over a store that another one wrote to.
//!
//! A process may be killed between two writes of one operation. Each of the operations below is safe to be cut there,
//! because somebody goes on from what is stored:
//!
//! | operation | writes | who goes on |
//! |---|---|---|
//! | create or update a definition | the definition, its status | [`custom::resume`] |
//! | delete a definition | the mark, its instances, its conditions, its removal | [`custom::resume`] |
//! | remove the last instance of such a definition | the instance, the definition | [`custom::resume`] |
//! | delete a pod that no node runs | the mark, its removal | [`remove_marked_pods`] |
//! | create what a quota counts | the quota's usage, the object | the quota controller, which counts anew |
//! | evict a pod | the budget, the pod's condition, its deletion | the disruption controller, which counts anew, and the client |
//! | delete a collection | its objects, one by one | the client, which was not answered |
//! | start a cluster | the objects of [`bootstrap`](crate::bootstrap) | the next start, which makes those that are missing |
//!
//! What is known in memory alone (the addresses and ports of services, roles, policies, what is served) is read from
//! the store at start.

use evenkeel_store::{Expect, Op, Range, Write, WriteError};
use serde_json::Value;

use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::{ApiServer, custom, stored};

/// Takes up what was cut.
pub(crate) async fn resume(server: &ApiServer) -> Result<()> {
    custom::resume(server).await?;
    remove_marked_pods(server).await
}

/// Removes pods that were marked to go at once and did not: no node runs them, and nothing holds them.
async fn remove_marked_pods(server: &ApiServer) -> Result<()> {
    let range = Range { prefix: storage_prefix("", "pods"), ..Range::default() };
    let page = server.store().range(&range).map_err(Status::internal)?;
    let marked = page.entries.iter().filter(|it| it.header.deleting && !it.header.finalizers);
    let at_once = marked.filter(|it| {
        let pod: Option<Value> = stored::read_or_skip(it);
        pod.is_some_and(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0)
    });
    let writes = at_once.map(|entry| Write {
        key: entry.key.clone(),
        expect: Expect::Revision(entry.revision),
        op: Op::Delete,
    });
    for outcome in server.store().write_all(writes.collect()).await {
        match outcome {
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(Status::internal(error)),
        }
    }
    Ok(())
}
