//! Kubernetes events: what happened to an object, for users to read.
//!
//! Events are sent in the background and never delay a reconcile. A repeated event becomes a series. An object with very
//! many events gets no more for a while. When the buffer is full, events are dropped, and the log says so.

mod sender;

use std::fmt;

use evenkeel_env::{Env, Station, Work};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Object;
use sender::Sender;

/// How many events may wait to be sent: the number of client-go's broadcaster.
const WAITING_MAX: usize = 1000;

/// The type of an event.
///
/// ```
/// use evenkeel_runtime::{Ctx, EventType};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// fn tell(ctx: &Ctx, map: &ConfigMap, full: bool) {
///     let kind = if full { EventType::Warning } else { EventType::Normal };
///     ctx.recorder().record(map, kind, "Measured", "looked at the disk");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Something happened as expected.
    Normal,
    /// Something may need attention.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Records events. Clones share one recorder.
///
/// ```no_run
/// use std::sync::Arc;
/// use evenkeel_runtime::{Action, Ctx, EventType, Result};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
///     ctx.recorder().record(&*map, EventType::Warning, "Odd", "it has no data");   // never waits
///     Ok(Action::await_change())
/// }
/// ```
#[derive(Clone)]
pub struct Recorder {
    /// `None` if events are not sent.
    waiting: Option<mpsc::Sender<Note>>,
    station: Station,
    reporter: std::sync::Arc<str>,
}

/// An event that waits to be sent.
struct Note {
    reporter: std::sync::Arc<str>,
    regarding: ObjectReference,
    event_type: EventType,
    reason: String,
    text: String,
    /// Pending work until it is sent.
    _work: Work,
}

/// Makes a recorder, and the task that sends its events. After `closing`, the task sends what was recorded by then and
/// ends.
pub(crate) fn channel(
    client: Client,
    env: Env,
    closing: CancellationToken,
) -> (Recorder, impl Future<Output = ()> + Send) {
    let (waiting, notes) = mpsc::channel(WAITING_MAX);
    let station = env.ledger().station("events to record");
    (
        Recorder { waiting: Some(waiting), station, reporter: "evenkeel".into() },
        Sender::new(client, env).run(notes, closing),
    )
}

impl Recorder {
    /// A recorder that drops all events.
    pub(crate) fn silent(env: &Env) -> Self {
        let station = env.ledger().station("events to record");
        Self { waiting: None, station, reporter: "evenkeel".into() }
    }

    /// The recorder of one controller, which is named as the reporter of its events.
    pub(crate) fn named(&self, reporter: std::sync::Arc<str>) -> Self {
        Self { reporter, ..self.clone() }
    }

    /// Records an event about an object of a kind that is known at compile time.
    pub fn record<K: Object<DynamicType: Default>>(
        &self,
        about: &K,
        event_type: EventType,
        reason: &str,
        note: impl Into<String>,
    ) {
        self.record_about(about.object_ref(&K::DynamicType::default()), event_type, reason, note);
    }

    /// Records an event about the object of this reference.
    pub fn record_about(
        &self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: &str,
        note: impl Into<String>,
    ) {
        let Some(waiting) = &self.waiting else { return };
        let note = Note {
            reporter: self.reporter.clone(),
            regarding,
            event_type,
            reason: reason.to_owned(),
            text: note.into(),
            _work: self.station.enter(),
        };
        if waiting.try_send(note).is_err() {
            tracing::warn!(reason, "an event was dropped: too many wait to be sent");
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
