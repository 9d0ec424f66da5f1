//! Watches: a stream over the store's change log that the client pulls.
//!
//! Bookmarks and timeouts are timers of `tokio::time` and do not count as work in the ledger.

mod converting;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_env::{Env, Work};
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::json;
use evenkeel_schema::normalize::normalize;
use evenkeel_store::{Change, Entry, Range, Watch, WatchError};
use futures::Stream;
use futures::future::BoxFuture;
use http::Response;
use jiff::Timestamp;
use tokio::time::{Instant, Sleep, sleep_until};

use self::converting::{Converted, Needed, Shown, convert_change, initial_state};
use super::list::refuse_options;
use super::select::Selection;
use crate::body::Body;
use crate::context::RequestContext;
use crate::conversion::{Converter, Served, calls_webhook, served_now};
use crate::encode::EncodedObject;
use crate::encoded_events::{EncodedEvents, EventId};
use crate::request::{Format, ListQuery, Shape, negotiate_for, parse_version};
use crate::status::{Result, Status};
use crate::table::{Printer, TableOptions};
use crate::{Header, ResourceInfo, metrics, respond};

/// The interval of bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watch sends its last bookmark, so that the next watch starts close to it.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The shortest lifetime of a watch without a timeout. It lives up to twice as long, so that not all watches
/// end at once.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);

/// Answers a watch.
pub(crate) async fn watch(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, true, ctx.info.is_custom())?;
    let query = ListQuery::parse(&ctx.request.query)?;
    validate(&query)?;
    if accept.format == Format::Yaml {
        return Err(Status::not_acceptable(
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch",
        ));
    }
    let mut selection = Selection::parse(ctx.info, &query.labels, &query.fields)?;
    if !ctx.path.name.is_empty() {
        if !query.fields.is_empty() && selection.name() != Some(&ctx.path.name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        selection = selection.and_name(&ctx.path.name);
    }
    let rows = match accept.shape {
        Shape::Table { beta } => {
            let printer = Printer::of(ctx.info).into();
            Some(Rows {
                printer,
                options: TableOptions::of(ctx.request, beta, ctx.services.env.now())?,
                env: ctx.services.env.clone(),
            })
        }
        _ => None,
    };
    let form = Form { info: ctx.info.clone(), shape: accept.shape, rows };
    let stream = open(ctx, &query, selection, form).await?;
    let what = format!("watch of {}", ctx.request.path);
    let stream = ctx.services.panics.guard_stream(what, stream);
    let labels = metrics::labels(&ctx.services.registry, ctx.request);
    Ok(respond::watch(accept.format, ctx.services.metrics.watched(labels, stream)))
}

fn validate(query: &ListQuery) -> Result<()> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    let rule = query.version_match.as_str();
    // A watch without a resource version begins with the current state.
    let legacy = matches!(query.version.as_str(), "" | "0");
    if query.initial_events.is_none() && rule.is_empty() && legacy && !query.token.is_empty() {
        errors.push(FieldError::forbidden(field, TOKEN_FORBIDDEN));
    }
    if query.initial_events.is_some() && rule != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, why));
    }
    if !rule.is_empty() {
        if query.initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if rule != "NotOlderThan" {
            errors.push(FieldError::not_supported(field, rule, &["NotOlderThan"]));
        }
        if !query.token.is_empty() {
            errors.push(FieldError::forbidden(field, TOKEN_FORBIDDEN));
        }
    }
    refuse_options(&errors)
}

const TOKEN_FORBIDDEN: &str = "resourceVersionMatch is forbidden when continue is provided";

/// Where a watch begins.
enum Begin {
    /// With the current state, as synthetic ADDED events.
    State,
    /// After this revision.
    After(u64),
    /// Nowhere: the watch fails with this error.
    Never(Status),
}

async fn open(
    ctx: &RequestContext<'_>,
    query: &ListQuery,
    selection: Selection,
    form: Form,
) -> Result<Events> {
    let newest = ctx.services.store.sync().await;
    let begin = begin(query, newest)?;
    let length = length(query.timeout_seconds, &ctx.services.env);
    let prefix = ctx.scope();
    let mut pending = VecDeque::new();
    let mut begin = begin;
    let after = match &begin {
        Begin::After(after) => *after,
        // The error is sent as an event, because the response headers of a watch have been sent by then.
        Begin::Never(_) => newest,
        Begin::State => {
            let range = Range { prefix: prefix.clone(), ..Range::default() };
            let page = ctx.services.store.range(&range).map_err(Status::internal)?;
            match initial_state(ctx, &selection, page.entries, page.revision).await {
                Ok(initial) => pending = initial,
                Err(status) => begin = Begin::Never(status),
            }
            page.revision
        }
    };
    let state = match begin {
        Begin::Never(status) => WatchState::Failed(Some(status)),
        // Kubernetes would ask its storage for the current revision, which fails because the timeout is over.
        _ if length.is_zero() && query.version.is_empty() => WatchState::Failed(Some(out_of_time())),
        _ => match ctx.services.store.watch(&prefix, after) {
            Ok(watch) => WatchState::Open(watch),
            Err(error) => WatchState::Failed(refusal(&error)),
        },
    };
    if matches!(state, WatchState::Failed(_)) {
        pending.clear();
    }
    let now = Instant::now();
    let from_state = query.initial_events.unwrap_or(matches!(query.version.as_str(), "" | "0"));
    let marks_end = from_state && query.bookmarks;
    Ok(Events {
        work: Some(ctx.services.hold("watch's initial state")),
        initial: pending,
        end_mark: (marks_end && matches!(state, WatchState::Open(_))).then_some(after),
        ahead: (after > newest).then_some(after),
        state,
        selection,
        form,
        shared: ctx.services.events.clone(),
        converter: ctx.services.converter.clone(),
        converting: None,
        first: true,
        bookmark: query.bookmarks.then(|| Box::pin(sleep_until(first_bookmark(now, length)))),
        end: Box::pin(sleep_until(now + length)),
        ends_at: now + length,
    })
}

/// Returns the type of an event, and the object that it contains.
fn transition<T>(before: Option<T>, after: Option<T>) -> Option<(&'static str, T)> {
    match (before, after) {
        (None, None) => None,
        (None, Some(after)) => Some(("ADDED", after)),
        (Some(_), Some(after)) => Some(("MODIFIED", after)),
        (Some(before), None) => Some(("DELETED", before)),
    }
}

/// The lifetime of a watch. Kubernetes computes it in 64 bits of nanoseconds, which wrap around, so a timeout
/// beyond 292 years may be over at once.
fn length(seconds: Option<i64>, env: &Env) -> Duration {
    const NANOSECONDS: i64 = 1_000_000_000;
    match seconds.unwrap_or(0).wrapping_mul(NANOSECONDS) {
        0 => TIMEOUT_MIN.mul_f64(1.0 + env.random_fraction()),
        nanoseconds => Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)),
    }
}

fn begin(query: &ListQuery, newest: u64) -> Result<Begin> {
    let version = match query.version.as_str() {
        "" => 0,
        text => parse_version(text).map_err(|why| {
            Status::server_error(format!("resourceVersion: Invalid value: {text:?}: {why}"))
        })?,
    };
    Ok(match (query.initial_events, version) {
        (Some(true), version) if version > newest => {
            Begin::Never(Status::too_large_resource_version(version, newest))
        }
        (Some(true), _) | (None, 0) => Begin::State,
        (Some(false), 0) => Begin::After(newest),
        (_, version) => Begin::After(version),
    })
}

fn first_bookmark(now: Instant, length: Duration) -> Instant {
    let before_end = length.saturating_sub(BOOKMARK_BEFORE_END);
    now + if before_end.is_zero() { BOOKMARK_EVERY } else { BOOKMARK_EVERY.min(before_end) }
}

/// How a watch encodes objects.
#[derive(Clone)]
struct Form {
    info: Arc<ResourceInfo>,
    shape: Shape,
    /// Set for the shape of a Table.
    rows: Option<Rows>,
}

/// Prints the rows of a Table.
#[derive(Clone)]
struct Rows {
    printer: Arc<Printer>,
    options: TableOptions,
    env: Env,
}

enum WatchState {
    Open(Watch<Header>),
    /// The last event to send, if any.
    Failed(Option<Status>),
    Ended,
}

/// The body of a watch.
struct Events {
    /// Held until the client has read the initial state, because that counts as in flight, like any event.
    work: Option<Work>,
    initial: VecDeque<Shown>,
    /// The revision of the bookmark that ends the initial events, until it is sent.
    end_mark: Option<u64>,
    state: WatchState,
    /// The revision after which the watch begins, if the store has not reached it yet. No bookmark may be
    /// sent before.
    ahead: Option<u64>,
    selection: Selection,
    form: Form,
    /// The cache of events that were encoded for other watches.
    shared: Arc<EncodedEvents>,
    converter: Converter,
    /// The change that a webhook is converting. The watch waits for it, so that events are neither lost nor reordered.
    converting: Option<BoxFuture<'static, Converted>>,
    /// Whether no event was sent yet; the first event of a Table has the column definitions.
    first: bool,
    bookmark: Option<Pin<Box<Sleep>>>,
    end: Pin<Box<Sleep>>,
    ends_at: Instant,
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(event) = ready!(this.poll_initial(cx)) {
            return Poll::Ready(Some(event));
        }
        if let Some(revision) = this.end_mark.take() {
            return Poll::Ready(Some(this.bookmark_event(revision, true)));
        }
        this.work = None;
        if let WatchState::Failed(status) = &mut this.state {
            let event = status.take().map(|status| error_event(&status));
            this.state = WatchState::Ended;
            return Poll::Ready(event);
        }
        // The timeout comes first: changes after it belong to the next watch.
        if this.end.as_mut().poll(cx).is_ready() {
            this.state = WatchState::Ended;
            return Poll::Ready(None);
        }
        if let Poll::Ready(next) = this.poll_change(cx) {
            return Poll::Ready(next);
        }
        this.poll_bookmark(cx)
    }
}

impl Events {
    /// Returns the next event of the initial state, or `None` at its end.
    fn poll_initial(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while !self.initial.is_empty() || self.end_mark.is_some() {
            if self.converting.is_some() {
                if self.end.as_mut().poll(cx).is_ready() {
                    (self.initial, self.end_mark, self.converting) = (VecDeque::new(), None, None);
                    break;
                }
                if let Some(event) = ready!(self.poll_converted(cx)) {
                    return Poll::Ready(Some(event));
                }
            }
            let object = match self.initial.pop_front() {
                None => break,
                Some(Shown::Served(served)) => served,
                Some(Shown::Stored(entry)) => {
                    match served_now(&self.converter.current(&self.form.info), &entry) {
                        Ok(Some(served)) => served,
                        // The definition has got a conversion webhook since the watch began.
                        Ok(None) => {
                            let revision = entry.revision;
                            self.convert(
                                Needed { before: None, existed: false, after: Some(entry) },
                                revision,
                            );
                            continue;
                        }
                        // Objects with damaged bytes are left out.
                        Err(_) => continue,
                    }
                }
            };
            if let Some(event) = self.event("ADDED", &object, object.revision) {
                return Poll::Ready(Some(event));
            }
        }
        Poll::Ready(None)
    }

    /// Returns the event of the change that is being converted, or `None` if there is none.
    fn poll_converted(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(converting) = &mut self.converting else { return Poll::Ready(None) };
        let converted = ready!(converting.as_mut().poll(cx));
        self.converting = None;
        Poll::Ready(self.converted_change(converted))
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = ready!(self.poll_converted(cx)) {
                return Poll::Ready(Some(bytes));
            }
            let error = match &mut self.state {
                WatchState::Ended | WatchState::Failed(_) => return Poll::Ready(None),
                WatchState::Open(watch) => match watch.poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => error,
                    Poll::Ready(Ok(change)) => match self.change(&change) {
                        Some(bytes) => return Poll::Ready(Some(bytes)),
                        None => continue,
                    },
                },
            };
            self.state = WatchState::Ended;
            return Poll::Ready(refusal(&error).map(|status| error_event(&status)));
        }
    }

    fn poll_bookmark(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // A bookmark would claim that the event in conversion was already sent.
        if self.converting.is_some() {
            return Poll::Pending;
        }
        let due = self.bookmark.as_mut().is_some_and(|it| it.as_mut().poll(cx).is_ready());
        let WatchState::Open(watch) = &self.state else { return Poll::Pending };
        if !due {
            return Poll::Pending;
        }
        let revision = watch.revision();
        let now = Instant::now();
        let before_end = self.ends_at - BOOKMARK_BEFORE_END.min(self.ends_at - now);
        let next = if before_end > now { before_end.min(now + BOOKMARK_EVERY) } else { now + BOOKMARK_EVERY };
        if let Some(timer) = &mut self.bookmark {
            timer.as_mut().reset(next);
            // Registers the timer again; it cannot be due yet.
            let _ = timer.as_mut().poll(cx);
        }
        if self.ahead.is_some_and(|ahead| revision <= ahead) {
            return Poll::Pending;
        }
        Poll::Ready(Some(self.bookmark_event(revision, false)))
    }

    /// The event for a change. An object that begins or ceases to match the selectors is reported as ADDED or
    /// DELETED.
    fn change(&mut self, change: &Change<Header>) -> Option<Bytes> {
        let info = self.converter.current(&self.form.info);
        if calls_webhook(&info) {
            return self.begin_conversion(change);
        }
        let select = |entry: &Option<Arc<Entry<Header>>>| {
            entry.as_ref().filter(|it| self.selection.matches(&it.header, &it.value)).cloned()
        };
        let (kind, entry) = transition(select(&change.before), select(&change.after))?;
        let served = served_now(&info, &entry).ok().flatten()?;
        self.shared_event(kind, &served, change.revision)
    }

    /// Starts the conversion of a change by a webhook, unless the change is not selected or already converted.
    fn begin_conversion(&mut self, change: &Change<Header>) -> Option<Bytes> {
        let named = change.after.as_ref().or(change.before.as_ref())?;
        if !self.selection.matches_name(&named.header) {
            return None;
        }
        // Selectors apply to converted objects, but the name needs no conversion.
        let before = change.before.clone();
        let needed = if self.selection.is_by_name() && change.after.is_some() {
            Needed { before: None, existed: before.is_some(), after: change.after.clone() }
        } else {
            Needed { existed: before.is_some(), before, after: change.after.clone() }
        };
        self.convert(needed, change.revision);
        None
    }

    /// Starts a conversion by a webhook.
    fn convert(&mut self, needed: Needed, revision: u64) {
        let (converter, info) = (self.converter.clone(), self.form.info.clone());
        self.converting = Some(Box::pin(convert_change(converter, info, needed, revision)));
    }

    /// Returns the event for a converted change.
    fn converted_change(&mut self, converted: Converted) -> Option<Bytes> {
        let Converted { existed, before, after, revision } = converted;
        let selects = |served: &Served| self.selection.matches(&served.header, &served.value);
        let was_known = before.is_some();
        let before = before.filter(&selects);
        let after = after.filter(&selects);
        let (kind, served) = match (before, after) {
            // Selected only by name, the object was also selected before the change.
            (None, Some(after)) if existed && !was_known => ("MODIFIED", after),
            (before, after) => transition(before, after)?,
        };
        self.shared_event(kind, &served, revision)
    }

    /// Encodes an event that other watches receive too.
    fn shared_event(&mut self, kind: &'static str, entry: &Served, revision: u64) -> Option<Bytes> {
        if self.first && self.form.rows.is_some() {
            return self.event(kind, entry, revision);
        }
        let form = &self.form;
        let table = form.rows.as_ref().map(Rows::options_now);
        let id = EventId { revision, kind, shape: form.shape, table, info: form.info.clone() };
        let encode = || Some(form.event(kind, &entry.encoded(revision), false));
        self.first = false;
        self.shared.get(id, encode)
    }

    /// Encodes an event for this watch only.
    fn event(&mut self, kind: &str, entry: &Served, revision: u64) -> Option<Bytes> {
        let encoded = entry.encoded(revision);
        let first = std::mem::take(&mut self.first);
        Some(self.form.event(kind, &encoded, first))
    }

    fn bookmark_event(&mut self, revision: u64, end_of_initial: bool) -> Bytes {
        let first = std::mem::take(&mut self.first);
        self.form.event("BOOKMARK", &self.form.bookmark(revision, end_of_initial), first)
    }
}

impl Rows {
    /// The Table of one event; only the first one has column definitions.
    fn table(&self, encoded: &EncodedObject, first: bool) -> evenkeel_schema::json::Value {
        self.printer.single(encoded.to_value(), first, self.options_now())
    }

    /// The options of a Table that is printed now. The time is truncated to seconds, since ages are printed
    /// in seconds.
    fn options_now(&self) -> TableOptions {
        let now = self.env.now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        TableOptions { now, ..self.options }
    }
}

impl Form {
    fn event(&self, kind: &str, encoded: &EncodedObject, first: bool) -> Bytes {
        let mut out = Vec::with_capacity(encoded.len() + 40);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.shape {
            Shape::Object | Shape::Table { .. } => match &self.rows {
                Some(rows) => out.extend_from_slice(rows.table(encoded, first).to_string().as_bytes()),
                None => encoded.write(&mut out),
            },
            Shape::Metadata { beta } | Shape::MetadataList { beta } => encoded.write_metadata(&mut out, beta),
        }
        out.extend_from_slice(b"}\n");
        Bytes::from(out)
    }

    /// An object of the watched kind with nothing but a resourceVersion, and the fields that its Go struct always has.
    fn bookmark(&self, revision: u64, end_of_initial: bool) -> EncodedObject {
        let metadata = match end_of_initial {
            true => json!({"annotations": {"k8s.io/initial-events-end": "true"}}),
            false => json!({}),
        };
        let info = &self.info;
        let mut object = json!({"kind": info.kind, "apiVersion": info.api_version(), "metadata": metadata});
        if !info.is_custom() {
            normalize(&info.group, &info.version, &info.kind, &mut object);
        }
        EncodedObject::encode(&object, revision)
    }
}

/// The error of a watch that cannot continue; `None` if it just ends.
fn refusal(error: &WatchError) -> Option<Status> {
    let WatchError::Compacted { asked, oldest } = error else { return None };
    Some(Status::expired(format!("too old resource version: {asked} ({oldest})")))
}

/// The error of a watch whose timeout was over before it began.
fn out_of_time() -> Status {
    Status::new(500, "InternalError", "context deadline exceeded")
}

/// The last event of a watch that cannot continue.
fn error_event(status: &Status) -> Bytes {
    let mut out = b"{\"type\":\"ERROR\",\"object\":".to_vec();
    out.extend_from_slice(&status.to_json());
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}
