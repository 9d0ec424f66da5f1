//! A client that lists, then watches, and resumes the watch whenever its connection is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use evenkeel_history::{Change, ChangeKind, Revision};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::Notify;

use crate::writer::add_page;
use crate::{Phase, Shared};
use evenkeel_history::client::{self, Client, Connection};

/// Watches until the last object is seen. Notifies `listed` when the first list was read.
pub(crate) async fn watch(shared: Shared, number: usize, listed: Arc<Notify>) {
    let mut phase = shared.phase.clone();
    let mut watcher = Watcher { shared, number, revision: None };
    loop {
        let Phase { client, .. } = phase.borrow_and_update().clone();
        let ended = match &client {
            Some(client) => watcher.watch(client, &listed).await,
            None => Ended::Lost,
        };
        match ended {
            Ended::Done => return,
            Ended::Again => {}
            Ended::Lost if phase.changed().await.is_err() => return,
            Ended::Lost => {}
        }
    }
}

/// How one connection of a watcher ended.
enum Ended {
    /// The last object was seen.
    Done,
    /// The server ended the watch. The next one begins at once.
    Again,
    /// The connection is lost, because the server was killed or will be.
    Lost,
}

struct Watcher {
    shared: Shared,
    number: usize,
    /// The revision up to which all changes were seen; `None` if the watcher must list first.
    revision: Option<Revision>,
}

/// What an event means for the watch.
enum Next {
    /// More events follow.
    More,
    /// The revision is gone, so that the watcher must list again.
    Expired,
    /// This was the last event.
    End,
}

impl Watcher {
    /// Lists if necessary, and watches, on one connection.
    async fn watch(&mut self, client: &Client, listed: &Notify) -> Ended {
        let Ok(mut connection) = client.connect().await else { return Ended::Lost };
        let from = match self.revision {
            Some(revision) => revision,
            None => match self.list(&mut connection).await {
                Some(revision) => {
                    listed.notify_one();
                    revision
                }
                None => return Ended::Lost,
            },
        };
        let path = format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}", client::COLLECTION);
        let Ok(answer) = connection.open(Method::GET, &path, None).await else { return Ended::Lost };
        match answer.status() {
            StatusCode::OK => self.read(from, answer.into_body()).await,
            StatusCode::GONE => self.expired(),
            status => {
                let recorder = &self.shared.recorder;
                recorder.surprise(format!("a watch from revision {from} was answered by {status}"));
                Ended::Lost
            }
        }
    }

    /// Lists everything; `None` if the connection is lost.
    async fn list(&mut self, connection: &mut Connection) -> Option<Revision> {
        let recorder = &self.shared.recorder;
        let called = recorder.tick();
        let reply = connection.send(Method::GET, client::COLLECTION, None).await.ok()?;
        let returned = recorder.tick();
        let mut listing = None;
        if let Err(wrong) = add_page(&mut listing, &reply, called, returned) {
            recorder.surprise(wrong);
        }
        let listing = listing?;
        self.revision = Some(listing.revision);
        recorder.listed(listing);
        self.revision
    }

    /// Forgets the revision, so that the next watch begins with a list.
    fn expired(&mut self) -> Ended {
        self.revision = None;
        self.shared.expired.fetch_add(1, Ordering::Relaxed);
        Ended::Again
    }

    /// Reads the events of a watch.
    async fn read(&mut self, from: Revision, mut body: Incoming) -> Ended {
        let mut stream = self.shared.recorder.watching(self.number, from);
        let mut buffer = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Ended::Lost };
            buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                match self.event(&mut stream, &line) {
                    Ok(Next::More) => {}
                    Ok(Next::End) => return Ended::Done,
                    Ok(Next::Expired) => return self.expired(),
                    Err(wrong) => {
                        self.shared.recorder.surprise(wrong);
                        return Ended::Lost;
                    }
                }
            }
        }
        Ended::Again
    }

    fn event(&mut self, stream: &mut usize, line: &[u8]) -> Result<Next, String> {
        let wrong = || format!("a watch sent {}", String::from_utf8_lossy(line));
        let event: Value = serde_json::from_slice(line).map_err(|_| wrong())?;
        let object = &event["object"];
        let kind = match event["type"].as_str() {
            Some("ADDED") => ChangeKind::Added,
            Some("MODIFIED") => ChangeKind::Modified,
            Some("DELETED") => ChangeKind::Deleted,
            Some("BOOKMARK") => {
                let revision = client::revision(object).ok_or_else(wrong)?;
                self.shared.recorder.reached(*stream, revision);
                // Events after a bookmark must be newer than it. They are checked like a watch that begins there.
                *stream = self.shared.recorder.watching(self.number, revision);
                self.revision = Some(revision);
                return Ok(Next::More);
            }
            Some("ERROR") if object["code"] == 410 => return Ok(Next::Expired),
            _ => return Err(wrong()),
        };
        let revision = client::revision(object).ok_or_else(wrong)?;
        self.revision = Some(revision);
        let Some(key) = client::key(object) else {
            self.shared.recorder.reached(*stream, revision);
            let is_end = object.pointer("/metadata/name").and_then(Value::as_str) == Some(client::END);
            return Ok(if is_end { Next::End } else { Next::More });
        };
        let object = client::object(object).ok_or_else(wrong)?;
        let seen = self.shared.recorder.tick();
        self.shared.recorder.changed(*stream, Change { key, kind, object, seen });
        Ok(Next::More)
    }
}
