//! What a running reconcile notes for the recorder: its reads, its requests, and its changes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_record::Change;
use http::{Method, Request as HttpRequest, header};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Request;
use crate::own_writes::Writes;

/// How many requests of one reconcile are recorded. Further ones are only counted.
const REQUESTS_KEPT: usize = 32;

/// How many reads of one reconcile are recorded, besides that of its own object.
const READS_KEPT: usize = 16;

/// The longest error that is recorded, in bytes.
const ERROR_BYTES_MAX: usize = 600;

/// The media type of a server-side apply.
const APPLY: &[u8] = b"application/apply-patch";

tokio::task_local! {
    static CURRENT: Arc<Mutex<Tally>>;
}

/// What one reconcile did.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Whether the flight recorder is on. Otherwise nothing is noted.
    pub(crate) records: bool,
    /// The writes that the caches must show before the key is reconciled again.
    pub(crate) writes: Writes,
    /// What the flight recorder keeps.
    pub(crate) notes: Notes,
}

impl Tally {
    pub(crate) fn new(records: bool) -> Self {
        Self { records, writes: Writes::default(), notes: Notes::default() }
    }

    /// The notes, if the flight recorder is on.
    pub(crate) fn recorded(&mut self) -> Option<&mut Notes> {
        self.records.then_some(&mut self.notes)
    }

    /// Takes what was noted, and leaves an empty tally.
    pub(crate) fn take(&mut self) -> (Writes, Notes) {
        (std::mem::take(&mut self.writes), std::mem::take(&mut self.notes))
    }
}

/// What the flight recorder keeps of one reconcile.
#[derive(Debug, Default, Clone)]
pub(crate) struct Notes {
    /// The resource version of the reconciled object, or 0 if it was not read or is not a number.
    pub(crate) revision: u64,
    pub(super) reads: Vec<ReadNote>,
    pub(super) requests: Vec<SentNote>,
    pub(super) more_requests: u64,
}

#[derive(Debug, Clone)]
pub(super) struct ReadNote {
    /// The Rust type of the object; the last part of its path is the kind.
    pub(super) kind: &'static str,
    pub(super) key: Request,
    pub(super) revision: u64,
}

/// A request and the status of its response.
#[derive(Debug, Clone)]
pub(super) struct SentNote {
    pub(super) at: Instant,
    pub(super) method: Method,
    /// The path and query of the request.
    pub(super) path: Box<str>,
    pub(super) is_apply: bool,
    pub(super) code: u16,
    pub(super) took: Duration,
    /// The name of a created object, which the path lacks.
    pub(super) created: Option<Arc<str>>,
    pub(super) revision: u64,
    pub(super) changes: Vec<Change>,
    pub(super) more_changes: u64,
    pub(super) error: Option<Box<str>>,
}

impl Notes {
    /// Notes an object that was read from a cache.
    pub(crate) fn read<K>(&mut self, key: &Request, version: Option<&str>) {
        if self.reads.len() == READS_KEPT {
            return;
        }
        let revision = version.and_then(|version| version.parse().ok()).unwrap_or_default();
        self.reads.push(ReadNote { kind: std::any::type_name::<K>(), key: key.clone(), revision });
    }

    /// The method of the last request, if that request is kept.
    pub(crate) fn last_method(&self) -> Option<Method> {
        let kept = self.more_requests == 0;
        self.requests.last().filter(|_| kept).map(|sent| sent.method.clone())
    }

    /// Notes what the last request changed.
    pub(crate) fn changed(&mut self, name: &str, revision: u64, (changes, more): (Vec<Change>, u64)) {
        let Some(sent) = self.last() else { return };
        sent.revision = revision;
        if sent.method == Method::POST {
            // All fields of a created object are new, so no changes are kept.
            sent.created = Some(name.into());
            return;
        }
        sent.changes = changes;
        sent.more_changes = more;
    }

    /// Notes the error message of the last request.
    pub(crate) fn refused(&mut self, why: &str) {
        if let Some(sent) = self.last() {
            sent.error = Some(error_text(why));
        }
    }

    /// The last request, if it was recorded.
    fn last(&mut self) -> Option<&mut SentNote> {
        let recorded = self.more_requests == 0;
        self.requests.last_mut().filter(|_| recorded)
    }

    fn sent(&mut self, sent: SentNote) {
        match self.requests.len() {
            REQUESTS_KEPT => self.more_requests += 1,
            _ => self.requests.push(sent),
        }
    }

    /// The bytes on the heap.
    pub(super) fn heap(&self) -> usize {
        if self.requests.is_empty() && self.reads.is_empty() {
            return 0;
        }
        let reads = self.reads.iter().map(|read| read.key.name.len() + 32).sum::<usize>();
        let requests = self.requests.iter().map(SentNote::heap).sum::<usize>();
        let lists =
            self.reads.capacity() * size_of::<ReadNote>() + self.requests.capacity() * size_of::<SentNote>();
        lists + reads + requests
    }
}

impl SentNote {
    fn heap(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let change = |change: &Change| change.path.len() + text(&change.from) + text(&change.to);
        self.path.len()
            + self.created.as_ref().map_or(0, |name| name.len() + 16)
            + self.changes.capacity() * size_of::<Change>()
            + self.changes.iter().map(change).sum::<usize>()
            + self.error.as_ref().map_or(0, |error| error.len())
    }
}

/// Prepares an error for the record: shortens it, and removes the values that the API server quotes from the object.
pub(crate) fn error_text(error: &str) -> Box<str> {
    let mut text = without_values(error);
    if text.len() > ERROR_BYTES_MAX {
        let end = (0..=ERROR_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text.into()
}

/// Removes values from validation messages such as `Invalid value: "secret": must be …`.
fn without_values(error: &str) -> String {
    let mut text = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(at) = QUOTES.iter().filter_map(|quote| rest.find(quote).map(|at| at + quote.len())).min() {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = value_end(rest);
        text.push('…');
        rest = &rest[end..];
    }
    text.push_str(rest);
    text
}

/// The texts after which the API server quotes a value.
const QUOTES: [&str; 3] = ["Invalid value: ", "Unsupported value: ", "Duplicate value: "];

/// Returns the length of the value at the start of a text: a quoted string with its escapes, or everything up to a
/// colon.
fn value_end(text: &str) -> usize {
    let quote = match text.as_bytes().first() {
        Some(quote @ (b'"' | b'`')) => *quote,
        _ => return text.find(": ").unwrap_or(text.len()),
    };
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quote == b'"' => escaped = true,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Runs a reconcile. The requests that it sends are noted in its tally.
pub(crate) fn follow<F: Future>(tally: Arc<Mutex<Tally>>, reconcile: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(tally, reconcile)
}

/// A request of a reconcile that is being sent.
pub(crate) struct Asked {
    tally: Arc<Mutex<Tally>>,
    sent: SentNote,
}

/// Starts the note of a request, if a reconcile is sending it.
pub(crate) fn asked(request: &HttpRequest<Body>) -> Option<Asked> {
    let tally = CURRENT.try_with(Arc::clone).ok()?;
    let content_type = request.headers().get(header::CONTENT_TYPE).map(|it| it.as_bytes());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let sent = SentNote {
        at: Instant::now(),
        method: request.method().clone(),
        path: path.into(),
        is_apply: content_type.is_some_and(|it| it.starts_with(APPLY)),
        code: 0,
        took: Duration::ZERO,
        created: None,
        revision: 0,
        changes: Vec::new(),
        more_changes: 0,
        error: None,
    };
    Some(Asked { tally, sent })
}

impl Asked {
    /// Completes the note with the status code of the response, or with 0 if there was none.
    pub(crate) fn answered(mut self, code: u16) {
        self.sent.code = code;
        self.sent.took = self.sent.at.elapsed();
        self.tally.lock().notes.sent(self.sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server quotes rejected values, which may be passwords, in its messages.
    #[test]
    fn values_that_the_server_quotes_are_left_out() {
        let said = r#"Site "web" is invalid: [spec.password: Invalid value: "hun\"ter: 2": too short, spec.b: Unsupported value: "x": supported values: "y"]"#;
        let kept = r#"Site "web" is invalid: [spec.password: Invalid value: …: too short, spec.b: Unsupported value: …: supported values: "y"]"#;
        assert_eq!(&*error_text(said), kept);
        assert_eq!(&*error_text("Invalid value: 12: must be less"), "Invalid value: …: must be less");
        assert_eq!(&*error_text("Invalid value: \"open"), "Invalid value: …");
        let long = "é".repeat(ERROR_BYTES_MAX);
        assert!(error_text(&long).len() <= ERROR_BYTES_MAX + '…'.len_utf8());
    }
}
