//! The record of a cluster: the requests of its clients, the reconciles of its operators, and the faults that the test
//! injected.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::Body;
use evenkeel_record::{Controller, Entry, Origin, Record};
use evenkeel_runtime::Flight;
use evenkeel_runtime::flight::Position;
use futures::{Stream, StreamExt as _};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::transport::{Followed, Moment};

impl Cluster {
    /// Returns everything that was recorded in this cluster: the requests of clients, the reconciles of operators and
    /// built-in controllers in full detail, calls of webhooks, and disturbances.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// # let yaml = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}}";
    /// use evenkeel_record::questions;
    /// cluster.apply_yaml(yaml).await.unwrap();
    /// cluster.settled().await;
    /// let record = cluster.record();
    /// assert!(questions::loops(&record).is_empty());
    /// let lines = record.timeline();
    /// assert!(lines.iter().any(|line| line.contains("woken for default/web: Deployment default/web listed")), "{lines:#?}");
    /// # });
    /// ```
    pub fn record(&self) -> Record {
        let mut record = self.record_of(|_| true);
        let own = self.recorded_operators();
        record.entries.extend(self.moments().iter().filter_map(|moment| entry(moment, &own)));
        record.entries.sort_by_key(Entry::at);
        record
    }

    /// What these operators recorded.
    pub(super) fn record_of(&self, chosen: impl Fn(&str) -> bool) -> Record {
        let mut record = self.described();
        for (operator, flight) in self.flights().into_iter().filter(|(operator, _)| chosen(operator)) {
            record.merge(self.flown(&operator, &flight, &mut Position::default()));
        }
        record
    }

    /// Returns a reader that follows the record from now on.
    pub fn follow_record(&self) -> RecordFollower {
        let flights = self.flights().into_iter().map(|(_, flight)| {
            let mut position = Position::default();
            flight.record_after(&mut position);
            (flight, position)
        });
        let flights = flights.collect();
        RecordFollower { cluster: self.clone(), moments: self.inner.wire.recorder.now(), flights }
    }

    /// Makes the API server serve the record at [`RECORD_PATH`], and below it at `stream` as server-sent events whose
    /// data are records: the first has all entries, each later one those that are new. Readers need permission to `get`
    /// these paths as `nonResourceURLs`. Does nothing on a remote cluster.
    pub fn serve_record(&self) {
        let Some(server) = &self.inner.server else { return };
        // The server is part of the cluster, which must not keep itself alive.
        let inner = Arc::downgrade(&self.inner);
        let cluster = move || inner.upgrade().map(Self::of);
        let (of_whole, of_stream) = (cluster.clone(), cluster);
        server.add_page(RECORD_PATH, move || {
            let record = of_whole().map(|cluster| cluster.record().to_json()).unwrap_or_default();
            ("application/json", Body::slices([Bytes::from(record)]))
        });
        server.add_page(format!("{RECORD_PATH}/stream"), move || {
            let body = of_stream().map(|cluster| Body::stream(cluster.follow_whole_record().events()));
            ("text/event-stream", body.unwrap_or_default())
        });
    }

    /// Returns a reader that first gives the whole record, and then follows it.
    pub fn follow_whole_record(&self) -> RecordFollower {
        let moments = self.inner.wire.recorder.oldest();
        RecordFollower { cluster: self.clone(), moments, flights: Vec::new() }
    }

    /// Makes a record without entries.
    fn described(&self) -> Record {
        let started = self.inner.wire.recorder.start();
        let taken = started.elapsed();
        let begin = self.env().now() - jiff::SignedDuration::try_from(taken).unwrap_or_default();
        Record {
            name: "cluster".to_owned(),
            origin: Origin::Cluster,
            started: begin.to_string(),
            taken: u64::try_from(taken.as_micros()).unwrap_or(u64::MAX),
            ..Record::default()
        }
    }

    /// The flight recorders of all operators and of the built-in controllers, with their names.
    fn flights(&self) -> Vec<(String, Flight)> {
        let operators = self.inner.operators.lock();
        let of_one = operators.iter().map(|(name, operator)| (name, operator.flights()));
        of_one.flat_map(|(name, all)| all.into_iter().map(move |flight| (name.clone(), flight))).collect()
    }

    /// The names of the operators that have records of their own, in order, with the built-in controllers.
    fn recorded_operators(&self) -> Vec<String> {
        let mut names: Vec<String> = self.inner.operators.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns what one operator recorded, with times counted from the start of this cluster's record.
    fn flown(&self, operator: &str, flight: &Flight, position: &mut Position) -> Record {
        let mut record = flight.record_after(position);
        record.shift(since(self.inner.wire.recorder.start(), flight.started()));
        record.controllers.iter_mut().for_each(|it| it.operator = operator.to_owned());
        record.watches.iter_mut().for_each(|it| it.operator = operator.to_owned());
        record
    }
}

/// Returns a moment as an entry, unless it is of one of these operators, whose own records contain it.
fn entry(moment: &Moment, operators: &[String]) -> Option<Entry> {
    if let Moment::Request(exchange) = moment
        && operators.binary_search_by(|name| name.as_str().cmp(&exchange.by)).is_ok()
    {
        return None;
    }
    moment.entry()
}

/// Returns the number of microseconds between two instants.
fn since(start: Instant, at: Instant) -> i64 {
    let micros = |it: std::time::Duration| i64::try_from(it.as_micros()).unwrap_or(i64::MAX);
    match at.checked_duration_since(start) {
        Some(later) => micros(later),
        None => -micros(start.saturating_duration_since(at)),
    }
}

/// The path at which the API server and operators serve their records.
pub const RECORD_PATH: &str = "/debug/evenkeel";

/// How often a stream is sent what is new.
const NEWS_PERIOD: Duration = Duration::from_millis(500);

/// How often a stream is sent the state of controllers and watches if nothing is new.
const STATE_PERIOD: Duration = Duration::from_secs(5);

/// A reader that follows the record of a cluster, made by [`Cluster::follow_record`].
pub struct RecordFollower {
    cluster: Cluster,
    moments: Followed,
    flights: Vec<(Flight, Position)>,
}

/// Whether nothing is new except how long ago each watch last received something.
fn is_old(news: &Record, controllers: &[Controller]) -> bool {
    news.entries.is_empty() && news.controllers == controllers
}

impl RecordFollower {
    /// Returns the news as a stream, with an item whenever something is new, and at least every few seconds.
    pub fn stream(self) -> impl Stream<Item = Record> + Send + 'static {
        let begin = (self, Vec::new(), None::<Instant>);
        futures::stream::unfold(begin, |(mut reader, mut controllers, mut told)| async move {
            loop {
                if told.is_some() {
                    tokio::time::sleep(NEWS_PERIOD).await;
                }
                let (news, now) = (reader.news(), Instant::now());
                if is_old(&news, &controllers) && told.is_some_and(|told| now - told < STATE_PERIOD) {
                    continue;
                }
                controllers.clone_from(&news.controllers);
                told = Some(now);
                return Some((news, (reader, controllers, told)));
            }
        })
    }

    /// Returns the news as server-sent events.
    pub fn events(self) -> impl Stream<Item = Bytes> + Send + 'static {
        self.stream().map(|news| Bytes::from(news.to_event()))
    }

    /// Returns what was recorded since the last call, with the current state of controllers and watches.
    pub fn news(&mut self) -> Record {
        let mut record = self.cluster.described();
        let operators = self.cluster.recorded_operators();
        let recorder = &self.cluster.inner.wire.recorder;
        record.dropped += recorder
            .ended_since(&mut self.moments, |moment| record.entries.extend(entry(moment, &operators)));
        let flights = self.cluster.flights();
        self.flights.retain(|(known, _)| flights.iter().any(|(_, flight)| flight.is_same(known)));
        for (operator, flight) in flights {
            let position = match self.flights.iter_mut().position(|(known, _)| known.is_same(&flight)) {
                Some(at) => &mut self.flights[at].1,
                None => {
                    self.flights.push((flight.clone(), Position::default()));
                    let last = self.flights.len() - 1;
                    &mut self.flights[last].1
                }
            };
            record.merge(self.cluster.flown(&operator, &flight, position));
        }
        record.entries.sort_by_key(Entry::at);
        record
    }
}

impl fmt::Debug for RecordFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordFollower({} recorders)", self.flights.len())
    }
}
