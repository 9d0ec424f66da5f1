//! From the lines of a watch to events, on several threads where very many lines are there at once.
//!
//! Decoding costs more than all else that is done with an event. A list of a hundred thousand objects, or a watch that
//! comes back after a while, is decoded in chunks that the runtime's threads share; the events are still applied one
//! after the other, in the order of the watch.

mod line;

use bytes::Bytes;
use kube::core::WatchEvent;
use tokio::task::JoinHandle;

use line::Line;

use crate::{Object, wire};

/// How many lines are taken at once, where they are there already: some 2 MiB of pods.
pub(super) const READ_AHEAD: usize = 512;

/// How many lines one task decodes: a few hundred microseconds, for which a task costs nothing.
const CHUNK: usize = 64;

/// What a line is.
pub(super) enum Decoded<K> {
    Event(WatchEvent<K>),
    /// Something that is no event of this kind.
    Invalid(Bytes, serde_json::Error),
    /// A line without anything, which servers send to keep a connection alive.
    Empty,
}

/// Decoded lines, in their order.
pub(super) struct Events<K> {
    /// The next ones, reversed.
    here: Vec<Decoded<K>>,
    /// Those after them, in the making; reversed.
    later: Vec<JoinHandle<Vec<Decoded<K>>>>,
}

impl<K: Object> Events<K> {
    pub(super) fn of(mut lines: Vec<Bytes>) -> Self {
        let mut later = Vec::new();
        while lines.len() > CHUNK {
            let rest = (lines.len() - 1) / CHUNK * CHUNK;
            let chunk = lines.split_off(rest);
            later.push(tokio::spawn(async move { decode_all(chunk) }));
        }
        Self { here: decode_all(lines), later }
    }

    /// The next event; none when all were given.
    pub(super) async fn next(&mut self) -> Option<Decoded<K>> {
        while self.here.is_empty() {
            // A task that was cancelled means that the runtime ends, and this task with it.
            self.here = self.later.pop()?.await.ok()?;
        }
        self.here.pop()
    }
}

/// Decodes lines; the first comes last.
fn decode_all<K: Object>(lines: Vec<Bytes>) -> Vec<Decoded<K>> {
    lines.into_iter().rev().map(decode).collect()
}

fn decode<K: Object>(line: Bytes) -> Decoded<K> {
    if line.is_empty() {
        return Decoded::Empty;
    }
    match wire::read(&line) {
        Ok(Line(event)) => Decoded::Event(event),
        Err(error) => Decoded::Invalid(line, error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    use super::*;

    #[tokio::test]
    async fn many_lines_come_out_in_their_order() {
        for count in [0, 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 7] {
            let line = |at: usize| match at % 10 {
                3 => Bytes::new(),
                7 => Bytes::from_static(b"{"),
                _ => Bytes::from(format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{at}"}}}}}}"#)),
            };
            let mut events = Events::<ConfigMap>::of((0..count).map(line).collect());
            let mut at = 0;
            while let Some(event) = events.next().await {
                match event {
                    Decoded::Event(WatchEvent::Added(map)) => assert_eq!(map.name_any(), at.to_string()),
                    Decoded::Event(_) => panic!("nothing else was sent"),
                    Decoded::Empty => assert_eq!(at % 10, 3),
                    Decoded::Invalid(..) => assert_eq!(at % 10, 7),
                }
                at += 1;
            }
            assert_eq!(at, count);
        }
    }
}
