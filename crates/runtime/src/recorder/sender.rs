//! Sends events: a new event is created, a repeated one is counted in its series.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::core::params::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{EventType, Note};
use crate::error::chain;
use crate::wire;

/// An event that is repeated within this time continues its series: client-go's number.
const SERIES_TIME: Duration = Duration::from_secs(6 * 60);

/// How many events one object may have at once: the number of client-go's spam filter.
const BURST: u32 = 25;
/// How long after a burst an object may have one more event: the number of client-go's spam filter.
const REFILL: Duration = Duration::from_secs(300);

/// How many series and objects are remembered, the oldest dropped first: the size of client-go's caches.
const REMEMBERED_MAX: usize = 4096;

/// The longest note that the API server accepts: 1 KiB.
const NOTE_MAX_BYTES: usize = 1024;

/// The reporter and the object of an event. Each pair has a budget of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct About {
    reporter: Arc<str>,
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

struct Series {
    name: String,
    count: i32,
    last: Instant,
}

struct Budget {
    left: u32,
    refilled: Instant,
}

pub(super) struct Sender {
    client: Client,
    env: Env,
    series: BTreeMap<Same, Series>,
    budgets: BTreeMap<About, Budget>,
}

impl Sender {
    pub(super) fn new(client: Client, env: Env) -> Self {
        Self { client, env, series: BTreeMap::new(), budgets: BTreeMap::new() }
    }

    pub(super) async fn run(mut self, mut notes: mpsc::Receiver<Note>, closing: CancellationToken) {
        while let Some(note) = next(&mut notes, &closing).await {
            if !self.may_send(&note) {
                tracing::debug!(reason = note.reason, "an event was not sent: its object causes too many");
                continue;
            }
            if let Err(error) = self.send(&note).await {
                tracing::warn!(reason = note.reason, error = chain(&error), "cannot record an event");
            }
        }
    }

    /// Takes one event from the budget of the reporter and the object. Returns whether there was one left.
    fn may_send(&mut self, note: &Note) -> bool {
        let now = Instant::now();
        forget_oldest(&mut self.budgets, |budget| budget.refilled);
        let budget = self.budgets.entry(About::of(note)).or_insert(Budget { left: BURST, refilled: now });
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

    async fn send(&mut self, note: &Note) -> kube::Result<()> {
        let same = Same {
            about: About::of(note),
            reason: note.reason.clone(),
            text: note.text.clone(),
            event_type: note.event_type,
        };
        let now = Instant::now();
        if let Some(series) = self.series.get_mut(&same)
            && now.saturating_duration_since(series.last) < SERIES_TIME
        {
            series.count += 1;
            series.last = now;
            let (name, count) = (series.name.clone(), series.count);
            match self.continue_series(note, &name, count).await {
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
        let namespace = namespace_of(note);
        let regarding = note.regarding.name.as_deref().unwrap_or("unknown");
        let name = format!("{regarding}.{:016x}", self.env.random_u64());
        let mut event = Event {
            action: Some("Reconcile".into()),
            event_time: Some(MicroTime(self.env.now())),
            note: Some(cut(&note.text, NOTE_MAX_BYTES)),
            reason: Some(note.reason.clone()),
            regarding: Some(note.regarding.clone()),
            reporting_controller: Some(note.reporter.to_string()),
            reporting_instance: Some(note.reporter.to_string()),
            type_: Some(note.event_type.as_str().into()),
            ..Event::default()
        };
        event.metadata.name = Some(name.clone());
        event.metadata.namespace = Some(namespace.to_owned());
        let body = serde_json::to_vec(&event).map_err(kube::Error::SerdeError)?;
        let request = requests(namespace).create(&PostParams::default(), body);
        wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?;
        Ok(name)
    }

    async fn continue_series(&self, note: &Note, name: &str, count: i32) -> kube::Result<()> {
        let last = MicroTime(self.env.now());
        let patch = Patch::Merge(json!({ "series": { "count": count, "lastObservedTime": last } }));
        let request = requests(namespace_of(note)).patch(name, &PatchParams::default(), &patch);
        wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?;
        Ok(())
    }
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

fn requests(namespace: &str) -> kube::core::Request {
    kube::core::Request::new(<Event as kube::Resource>::url_path(&(), Some(namespace)))
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
