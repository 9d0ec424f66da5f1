//! Every write of the replicas, in the order of the server.

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

/// The namespace of the lease and of the objects.
pub(crate) const NAMESPACE: &str = "failover";
/// How many objects the leader writes, each from a task of its own.
pub(crate) const OBJECTS: usize = 4;
/// How long a takeover may take: on a busy machine many times the duration of the lease.
const TAKEOVER: Duration = Duration::from_secs(120);

/// The writes that a watch of the objects has shown so far.
#[derive(Clone)]
pub(crate) struct Writes {
    written: Arc<Mutex<Vec<Written>>>,
    /// The identity that wrote last; empty before the first write.
    last: watch::Receiver<String>,
}

impl Writes {
    /// Creates the objects and starts to watch them.
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
        let revision = client::revision(&list.body).context("the list has no resource version")?;
        let path = format!("{collection}?watch=1&resourceVersion={revision}");
        let answer = connection.open(Method::GET, &path, None).await?;
        let (tell, last) = watch::channel(String::new());
        let writes = Self { written: Arc::default(), last };
        let written = writes.written.clone();
        tokio::spawn(async move {
            // Dropping the connection would end the watch.
            let _connection = connection;
            read(answer.into_body(), &written, &tell).await;
        });
        Ok(writes)
    }

    /// Waits for the next write and returns the identity that wrote.
    pub(crate) async fn next(&self) -> anyhow::Result<String> {
        let mut last = self.last.clone();
        last.mark_unchanged();
        timeout(TAKEOVER, last.changed())
            .await
            .context("no replica writes")?
            .context("the watch has ended")?;
        Ok(last.borrow().clone())
    }

    /// Waits for a write by another identity than `old` and returns that identity.
    pub(crate) async fn by_other_than(&self, old: &str) -> anyhow::Result<String> {
        let mut last = self.last.clone();
        let is_other = |by: &String| !by.is_empty() && by != old;
        let other = timeout(TAKEOVER, last.wait_for(is_other)).await;
        Ok(other.context("no other replica takes over")?.context("the watch has ended")?.clone())
    }

    /// Returns the identity that wrote last.
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
