//! The events of the nodes about their pods, rate-limited like a kubelet's.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_runtime::{Ctx, EventType};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::container::Note;
use super::registration;
use crate::kinds::{POD, Pod};

/// How many events a node may record in a burst, and how many a second after that: kubelet's `eventBurst` and
/// `eventRecordQPS`. A node drops further events, like a kubelet.
const BURST: u32 = 100;
const PER_SECOND: u32 = 50;

/// How many more events each node may record.
#[derive(Debug, Default)]
pub(crate) struct EventBudgets {
    nodes: Mutex<BTreeMap<usize, Budget>>,
}

#[derive(Debug)]
struct Budget {
    /// The number of events that the node may still record.
    left: f64,
    at: Instant,
}

impl EventBudgets {
    /// Takes one event from the budget of a node. Returns whether the budget allowed it.
    fn take(&self, node: usize) -> bool {
        let now = Instant::now();
        let mut nodes = self.nodes.lock();
        let budget = nodes.entry(node).or_insert(Budget { left: BURST.into(), at: now });
        let passed = now.saturating_duration_since(budget.at).min(Duration::from_secs(BURST.into()));
        budget.left = (budget.left + passed.as_secs_f64() * f64::from(PER_SECOND)).min(BURST.into());
        budget.at = now;
        let has = budget.left >= 1.0;
        if has {
            budget.left -= 1.0;
        }
        has
    }

    /// Records events about a pod.
    pub(crate) fn tell<S>(&self, ctx: &Ctx<S>, node: usize, pod: &Pod, notes: Vec<Note>) {
        if notes.is_empty() {
            return;
        }
        let recorder = ctx.recorder().counted("kubelet", &registration::name(node));
        for note in notes {
            if !self.take(node) {
                tracing::debug!(reason = &*note.reason, "an event was dropped: the node records too many");
                continue;
            }
            let event_type = if note.warning { EventType::Warning } else { EventType::Normal };
            recorder.record_about(reference(pod, note.path), event_type, &note.reason, note.text);
        }
    }
}

fn reference(pod: &Pod, path: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some(POD.api_version()),
        kind: Some(POD.kind.to_owned()),
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path: path,
    }
}
