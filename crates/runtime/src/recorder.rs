//! Kubernetes events: what happened to an object, for users to read.
//!
//! Events are sent in the background and never delay a reconcile. A repeated event becomes a series. An object with very
//! many events gets no more for a while. When the buffer is full, events are dropped, and the log says so.
//!
//! There are two forms of events. A [`Recorder`] writes events of `events.k8s.io`, as client-go's newer recorder and
//! kube-scheduler do. [`Recorder::counted`] returns one that writes events of core/v1 with a source and a count, as
//! client-go's older recorder, kubelets and kube-controller-manager do.

mod sender;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

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
    reporter: Arc<str>,
    /// The host of the reporter if events are counted, which may be empty.
    counted_on: Option<Arc<str>>,
}

/// The form of an event.
#[derive(Debug)]
enum Form {
    /// An event of `events.k8s.io`, which becomes a series when it is repeated.
    Series {
        /// What the reporter was doing.
        action: Cow<'static, str>,
        /// Another object that the event concerns.
        related: Option<ObjectReference>,
    },
    /// An event of core/v1, which has a source and counts how often it happened.
    Counted {
        /// The host of the reporter, or an empty text.
        host: Arc<str>,
    },
}

/// An event that waits to be sent.
struct Note {
    reporter: Arc<str>,
    form: Form,
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
    let recorder =
        Recorder { waiting: Some(waiting), station, reporter: "evenkeel".into(), counted_on: None };
    (recorder, Sender::new(client, env).run(notes, closing))
}

impl Recorder {
    /// A recorder that drops all events.
    pub(crate) fn silent(env: &Env) -> Self {
        let station = env.ledger().station("events to record");
        Self { waiting: None, station, reporter: "evenkeel".into(), counted_on: None }
    }

    /// The recorder of one controller, which is named as the reporter of its events.
    pub(crate) fn named(&self, reporter: Arc<str>) -> Self {
        Self { reporter, ..self.clone() }
    }

    /// Returns a recorder whose events have the form that client-go's `record.EventRecorder` gives them: core/v1, with
    /// the component and the host in their source, and counted when they are repeated. The host may be empty. Of ten
    /// events about one object that differ in their text only, the tenth and all further ones are combined.
    ///
    /// ```
    /// use evenkeel_runtime::{Ctx, EventType};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// fn tell(ctx: &Ctx, pod: &Pod) {
    ///     let kubelet = ctx.recorder().counted("kubelet", "node-1");
    ///     kubelet.record(pod, EventType::Normal, "Started", "Container started");
    /// }
    /// ```
    #[must_use]
    pub fn counted(&self, component: &str, host: &str) -> Self {
        Self { reporter: component.into(), counted_on: Some(host.into()), ..self.clone() }
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
        let form = match &self.counted_on {
            Some(host) => Form::Counted { host: host.clone() },
            None => Form::Series { action: "Reconcile".into(), related: None },
        };
        self.send(form, regarding, event_type, reason, note.into());
    }

    /// Records an event of `events.k8s.io` about an object, with what the reporter was doing and another object that the
    /// event concerns.
    pub fn record_action(
        &self,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        event_type: EventType,
        (reason, action): (&str, &str),
        note: impl Into<String>,
    ) {
        let form = Form::Series { action: action.to_owned().into(), related };
        self.send(form, regarding, event_type, reason, note.into());
    }

    fn send(
        &self,
        form: Form,
        regarding: ObjectReference,
        event_type: EventType,
        reason: &str,
        text: String,
    ) {
        let Some(waiting) = &self.waiting else { return };
        let note = Note {
            reporter: self.reporter.clone(),
            form,
            regarding,
            event_type,
            reason: reason.to_owned(),
            text,
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
