//! Sends events: a new event is created, a repeated one is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CountedEvent, EventSource};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::Client;
use kube::core::params::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{EventType, Form, Note};
use crate::error::chain;
use crate::wire;

/// An event that is repeated within this time continues its series: client-go's number.
const SERIES_TIME: Duration = Duration::from_secs(6 * 60);

/// How many events one object may have at once: the number of client-go's spam filter.
const BURST: u32 = 25;
/// How long after a burst an object may have one more event: the number of client-go's spam filter.
const REFILL: Duration = Duration::from_secs(300);

/// From this many events on that differ in their text only, they are combined to one: client-go's number.
const COMBINED_FROM: usize = 10;
/// Events that differ in their text only are alike if they come within this time of each other: client-go's number.
const ALIKE_WITHIN: Duration = Duration::from_secs(600);
/// The beginning of the text of combined events: client-go's words.
const COMBINED: &str = "(combined from similar events): ";

/// How many series and objects are remembered, the oldest dropped first: the size of client-go's caches.
const REMEMBERED_MAX: usize = 4096;

/// The longest note that the API server accepts: 1 KiB.
const NOTE_MAX_BYTES: usize = 1024;

/// The reporter and the object of an event. Each pair has a budget of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct About {
    reporter: Arc<str>,
    host: Option<Arc<str>>,
    api_version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

impl About {
    fn of(note: &Note) -> Self {
        let regarding = &note.regarding;
        Self {
            reporter: note.reporter.clone(),
            host: note.host().cloned(),
            api_version: regarding.api_version.clone(),
            kind: regarding.kind.clone(),
            namespace: regarding.namespace.clone(),
            name: regarding.name.clone(),
            uid: regarding.uid.clone(),
        }
    }
}

/// The fields that two events of one series have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Same {
    about: About,
    reason: String,
    text: String,
    event_type: EventType,
}

/// The fields that events have in common which may be combined.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    about: About,
    reason: String,
    event_type: EventType,
}

/// The texts of events that are alike otherwise.
struct Texts {
    all: BTreeSet<String>,
    last: Instant,
}

struct Series {
    name: String,
    count: i32,
    last: Instant,
}

struct Budget {
    left: u32,
    refilled: Instant,
}

/// The budgets of counted events are apart for each type, as client-go's are.
type BudgetOf = (About, Option<EventType>);

pub(super) struct Sender {
    client: Client,
    env: Env,
    series: BTreeMap<Same, Series>,
    alike: BTreeMap<Alike, Texts>,
    budgets: BTreeMap<BudgetOf, Budget>,
}

impl Note {
    /// Returns the host in the event's source if the event is a counted one.
    fn host(&self) -> Option<&Arc<str>> {
        match &self.form {
            Form::Counted { host } => Some(host),
            Form::Series { .. } => None,
        }
    }
}

impl Sender {
    pub(super) fn new(client: Client, env: Env) -> Self {
        Self { client, env, series: BTreeMap::new(), alike: BTreeMap::new(), budgets: BTreeMap::new() }
    }

    pub(super) async fn run(mut self, mut notes: mpsc::Receiver<Note>, closing: CancellationToken) {
        while let Some(mut note) = next(&mut notes, &closing).await {
            let combined = note.host().is_some() && self.is_one_of_many(&note);
            let same = Same::of(&note, combined);
            if combined {
                note.text.insert_str(0, COMBINED);
            }
            if !self.may_send(&note) {
                tracing::debug!(reason = note.reason, "an event was not sent: its object causes too many");
                if let Some(series) = self.series.get_mut(&same).filter(|_| note.host().is_some()) {
                    series.count += 1;
                }
                continue;
            }
            if let Err(error) = self.send(&note, same).await {
                if is_gone(&error) {
                    tracing::debug!(reason = note.reason, "an event was not sent: its namespace ends");
                    continue;
                }
                tracing::warn!(reason = note.reason, error = chain(&error), "cannot record an event");
            }
        }
    }

    /// Takes one event from the budget of the reporter and the object. Returns whether there was one left.
    fn may_send(&mut self, note: &Note) -> bool {
        let now = Instant::now();
        forget_oldest(&mut self.budgets, |budget| budget.refilled);
        let of = (About::of(note), note.host().map(|_| note.event_type));
        let budget = self.budgets.entry(of).or_insert(Budget { left: BURST, refilled: now });
        let passed = now.saturating_duration_since(budget.refilled);
        let refills = u32::try_from(passed.as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
        if refills > 0 {
            budget.left = budget.left.saturating_add(refills).min(BURST);
            // The time since the last whole refill counts towards the next one.
            budget.refilled += REFILL * refills;
        }
        match budget.left.checked_sub(1) {
            Some(left) => {
                budget.left = left;
                true
            }
            None => false,
        }
    }

    /// Notes the text of an event. Returns whether so many were alike recently that this one is combined with others.
    fn is_one_of_many(&mut self, note: &Note) -> bool {
        let now = Instant::now();
        forget_oldest(&mut self.alike, |texts| texts.last);
        let alike =
            Alike { about: About::of(note), reason: note.reason.clone(), event_type: note.event_type };
        let texts = self.alike.entry(alike).or_insert(Texts { all: BTreeSet::new(), last: now });
        if now.saturating_duration_since(texts.last) > ALIKE_WITHIN {
            texts.all.clear();
        }
        texts.last = now;
        texts.all.insert(note.text.clone());
        if texts.all.len() < COMBINED_FROM {
            return false;
        }
        texts.all.pop_first();
        true
    }

    async fn send(&mut self, note: &Note, same: Same) -> kube::Result<()> {
        let now = Instant::now();
        let goes_on =
            |last: Instant| note.host().is_some() || now.saturating_duration_since(last) < SERIES_TIME;
        if let Some(series) = self.series.get_mut(&same)
            && goes_on(series.last)
        {
            series.count += 1;
            series.last = now;
            let (name, count) = (series.name.clone(), series.count);
            match self.repeat(note, &name, count).await {
                // The event expired on the server, or was deleted: a new series starts.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => return result,
            }
        }
        let name = self.create(note).await?;
        forget_oldest(&mut self.series, |series| series.last);
        self.series.insert(same, Series { name, count: 1, last: now });
        Ok(())
    }

    async fn create(&self, note: &Note) -> kube::Result<String> {
        let regarding = note.regarding.name.as_deref().unwrap_or("unknown");
        let name = format!("{regarding}.{:016x}", self.env.random_u64());
        let body = match &note.form {
            Form::Series { .. } => serde_json::to_vec(&self.series_event(note, &name)),
            Form::Counted { host } => serde_json::to_vec(&self.counted_event(note, host, &name)),
        };
        let body = body.map_err(kube::Error::SerdeError)?;
        let request = requests(note).create(&PostParams::default(), body);
        wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?;
        Ok(name)
    }

    fn series_event(&self, note: &Note, name: &str) -> Event {
        let (action, related) = match &note.form {
            Form::Series { action, related } => (Some(action.to_string()), related.clone()),
            Form::Counted { .. } => (None, None),
        };
        let mut event = Event {
            action,
            event_time: Some(MicroTime(self.env.now())),
            note: Some(cut(&note.text, NOTE_MAX_BYTES)),
            reason: Some(note.reason.clone()),
            regarding: Some(note.regarding.clone()),
            related,
            reporting_controller: Some(note.reporter.to_string()),
            reporting_instance: Some(note.reporter.to_string()),
            type_: Some(note.event_type.as_str().into()),
            ..Event::default()
        };
        event.metadata.name = Some(name.to_owned());
        event.metadata.namespace = Some(namespace_of(note).to_owned());
        event
    }

    fn counted_event(&self, note: &Note, host: &str, name: &str) -> CountedEvent {
        let now = self.now();
        let host = Some(host.to_owned()).filter(|host| !host.is_empty());
        let mut event = CountedEvent {
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            message: Some(cut(&note.text, NOTE_MAX_BYTES)),
            reason: Some(note.reason.clone()),
            involved_object: note.regarding.clone(),
            reporting_component: Some(note.reporter.to_string()),
            reporting_instance: Some(host.clone().unwrap_or_default()),
            source: Some(EventSource { component: Some(note.reporter.to_string()), host }),
            type_: Some(note.event_type.as_str().into()),
            ..CountedEvent::default()
        };
        event.metadata.name = Some(name.to_owned());
        event.metadata.namespace = Some(namespace_of(note).to_owned());
        event
    }

    /// Returns the time in whole seconds, as a counted event stores it.
    fn now(&self) -> Time {
        let now = self.env.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    /// Writes that an event happened once more.
    async fn repeat(&self, note: &Note, name: &str, count: i32) -> kube::Result<()> {
        let patch = match &note.form {
            Form::Series { .. } => {
                json!({ "series": { "count": count, "lastObservedTime": MicroTime(self.env.now()) } })
            }
            Form::Counted { .. } => json!({
                "count": count, "lastTimestamp": self.now(), "message": cut(&note.text, NOTE_MAX_BYTES),
            }),
        };
        let request = requests(note).patch(name, &PatchParams::default(), &Patch::Merge(&patch));
        wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?;
        Ok(())
    }
}

impl Same {
    /// The key of an event. Combined events have one key, whatever their texts.
    fn of(note: &Note, combined: bool) -> Self {
        let text = if combined { COMBINED.to_owned() } else { note.text.clone() };
        Self { about: About::of(note), reason: note.reason.clone(), text, event_type: note.event_type }
    }
}

/// Whether an event was refused because its namespace is gone, or being deleted.
fn is_gone(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 || status.code == 403 && status.message.contains("because it is being terminated")
}

/// The next event to send. After `closing`, returns the waiting events, then `None`.
async fn next(notes: &mut mpsc::Receiver<Note>, closing: &CancellationToken) -> Option<Note> {
    tokio::select! {
        biased;
        note = notes.recv() => note,
        () = closing.cancelled() => None,
    }
}

/// Events about cluster-scoped objects live in `default`.
fn namespace_of(note: &Note) -> &str {
    note.regarding.namespace.as_deref().unwrap_or("default")
}

fn requests(note: &Note) -> kube::core::Request {
    let namespace = Some(namespace_of(note));
    kube::core::Request::new(match note.form {
        Form::Series { .. } => <Event as kube::Resource>::url_path(&(), namespace),
        Form::Counted { .. } => <CountedEvent as kube::Resource>::url_path(&(), namespace),
    })
}

/// Cuts the text at a character boundary to at most `max` bytes.
fn cut(text: &str, max: usize) -> String {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Makes room for one more entry. A full map costs a scan, which a healthy operator never sees.
fn forget_oldest<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, age: impl Fn(&V) -> Instant) {
    if map.len() < REMEMBERED_MAX {
        return;
    }
    let mut ages: Vec<Instant> = map.values().map(&age).collect();
    ages.sort_unstable();
    // Half of the entries are dropped at once, so that one scan serves many inserts.
    let middle = ages[ages.len() / 2];
    map.retain(|_, value| age(value) > middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory stays within its bound, and the latest entries are kept.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_are_forgotten_first() {
        let mut map = BTreeMap::new();
        for at in 0..3 * REMEMBERED_MAX {
            forget_oldest(&mut map, |seen| *seen);
            map.insert(at, Instant::now());
            assert!(map.len() <= REMEMBERED_MAX);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(map.contains_key(&(3 * REMEMBERED_MAX - 1)) && !map.contains_key(&0));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("a€b", 3), "a");
        assert_eq!(cut("a€b", 4), "a€");
        assert_eq!(cut("a€b", 9), "a€b");
    }
}
