//! The audit: every write of the replicas, in the server's order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::BytesMut;
use evenkeel_history::Written;
use evenkeel_history::client::{self, Client};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

/// Where the lease and the objects are.
pub(crate) const NAMESPACE: &str = "failover";
/// How many objects the leader writes, each by a task of its own.
pub(crate) const OBJECTS: usize = 4;
/// How long a takeover may take: on a busy machine many times the lease.
const TAKEOVER: Duration = Duration::from_secs(120);

/// What a watch of the objects has shown so far.
#[derive(Clone)]
pub(crate) struct Writes {
    written: Arc<Mutex<Vec<Written>>>,
    /// Who wrote last; empty before the first write, and after the watch has ended.
    last: watch::Receiver<String>,
}

impl Writes {
    /// Makes the objects and begins to watch them.
    pub(crate) async fn watch(client: &Client) -> anyhow::Result<Self> {
        let mut connection = client.connect().await?;
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        connection.send(Method::POST, "/api/v1/namespaces", Some(namespace)).await?;
        let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        for object in 0..OBJECTS {
            let body = json!({ "metadata": { "name": format!("o{object}") } });
            let reply = connection.send(Method::POST, &collection, Some(body)).await?;
            if reply.status != http::StatusCode::CREATED {
                bail!("cannot make an object: {reply:?}");
            }
        }
        let list = connection.send(Method::GET, &collection, None).await?;
        let revision = client::revision(&list.body).context("a list has a revision")?;
        let path = format!("{collection}?watch=1&resourceVersion={revision}");
        let answer = connection.open(Method::GET, &path, None).await?;
        let (tell, last) = watch::channel(String::new());
        let writes = Self { written: Arc::default(), last };
        let written = writes.written.clone();
        tokio::spawn(async move {
            // The connection is held for as long as the watch is read.
            let _connection = connection;
            read(answer.into_body(), &written, &tell).await;
        });
        Ok(writes)
    }

    /// Waits for the next write, and says whose it is.
    pub(crate) async fn next(&self) -> anyhow::Result<String> {
        let mut last = self.last.clone();
        last.mark_unchanged();
        timeout(TAKEOVER, last.changed()).await.context("nobody writes")?.context("the watch has ended")?;
        Ok(last.borrow().clone())
    }

    /// Waits until somebody writes other than `old`, and says who.
    pub(crate) async fn by_other_than(&self, old: &str) -> anyhow::Result<String> {
        let mut last = self.last.clone();
        let is_other = |by: &String| !by.is_empty() && by != old;
        let other = timeout(TAKEOVER, last.wait_for(is_other)).await;
        Ok(other.context("nobody takes over")?.context("the watch has ended")?.clone())
    }

    /// Who wrote last.
    pub(crate) fn leader(&self) -> String {
        self.last.borrow().clone()
    }

    pub(crate) fn all(&self) -> Vec<Written> {
        self.written.lock().clone()
    }
}

async fn read(mut body: Incoming, written: &Mutex<Vec<Written>>, tell: &watch::Sender<String>) {
    let mut buffer = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { return };
            let object = &event["object"];
            let by = object.pointer("/data/by").and_then(Value::as_str);
            if let (Some(revision), Some(by)) = (client::revision(object), by) {
                written.lock().push(Written { revision, by: by.to_owned() });
                tell.send_replace(by.to_owned());
            }
        }
    }
}
