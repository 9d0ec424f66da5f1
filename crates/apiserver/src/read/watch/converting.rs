//! Objects that a webhook converts for a watch.
//!
//! As in Kubernetes, a watch pauses while an object cannot be converted, and loses no event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_store::Entry;
use tokio::time::{Instant, sleep_until};

use crate::context::RequestContext;
use crate::conversion::{Converter, Served, calls_webhook, served_now};
use crate::read::select::Selection;
use crate::status::{Result, Status};
use crate::{Header, ResourceInfo};

/// How long a watch waits for the conversion of its initial state: as long as Kubernetes waits for its cache.
const INITIAL_STATE_WITHIN: Duration = Duration::from_secs(3);
/// The delay before a failed conversion of an event is retried: about as long as in Kubernetes' cache.
const CONVERSION_RETRY: Duration = Duration::from_millis(200);

/// An object of the initial state.
pub(super) enum Shown {
    /// An object that will be converted when its event is sent.
    Stored(Arc<Entry<Header>>),
    /// An object that a webhook has already converted.
    Served(Served),
}

/// Returns the initial state of a watch. If a webhook converts it, that happens before the watch begins.
pub(super) async fn initial_state(
    ctx: &RequestContext<'_>,
    selection: &Selection,
    entries: Vec<Arc<Entry<Header>>>,
    revision: u64,
) -> Result<VecDeque<Shown>> {
    if !calls_webhook(ctx.info) {
        let selected = entries.into_iter().filter(|it| selection.matches(&it.header, &it.value));
        return Ok(selected.map(Shown::Stored).collect());
    }
    let named: Vec<_> = entries.into_iter().filter(|it| selection.matches_name(&it.header)).collect();
    let until = Instant::now() + INITIAL_STATE_WITHIN;
    loop {
        match ctx.services.converter.served_all(ctx.info, &named).await {
            Ok(served) => {
                let served = served.into_iter().filter_map(|it| it.ok());
                let selected = served.filter(|it| selection.matches(&it.header, &it.value));
                return Ok(selected.map(Shown::Served).collect());
            }
            Err(status) if Instant::now() + CONVERSION_RETRY >= until => {
                tracing::warn!(why = status.message, "the initial state of a watch cannot be converted");
                let oldest = unconverted(ctx.info, &named).unwrap_or(revision);
                sleep_until(until).await;
                return Err(Status::too_large_resource_version(revision, oldest.saturating_sub(1)));
            }
            Err(_) => sleep_until(Instant::now() + CONVERSION_RETRY).await,
        }
    }
}

/// Returns the revision of the oldest object that is not converted yet.
fn unconverted(info: &ResourceInfo, entries: &[Arc<Entry<Header>>]) -> Option<u64> {
    let missing = entries.iter().filter(|entry| matches!(served_now(info, entry), Ok(None)));
    missing.map(|entry| entry.revision).min()
}

/// A change that must be converted.
pub(super) struct Needed {
    /// The previous state, if selectors need it.
    pub(super) before: Option<Arc<Entry<Header>>>,
    /// Whether there was a previous state.
    pub(super) existed: bool,
    pub(super) after: Option<Arc<Entry<Header>>>,
}

/// A converted change.
pub(super) struct Converted {
    pub(super) before: Option<Served>,
    pub(super) existed: bool,
    pub(super) after: Option<Served>,
    pub(super) revision: u64,
}

/// Converts a change by a webhook, and retries until that succeeds. The watch pauses meanwhile, as in Kubernetes.
pub(super) async fn convert_change(
    converter: Converter,
    info: Arc<ResourceInfo>,
    needed: Needed,
    revision: u64,
) -> Converted {
    let entries: Vec<_> = needed.before.iter().chain(&needed.after).cloned().collect();
    let served = loop {
        match converter.served_all(&info, &entries).await {
            Ok(served) => break served,
            Err(status) => {
                tracing::warn!(why = status.message, revision, "an event of a watch cannot be converted yet");
                sleep_until(Instant::now() + CONVERSION_RETRY).await;
            }
        }
    };
    let mut served = served.into_iter().map(|it| it.ok());
    let before = needed.before.and_then(|_| served.next().flatten());
    let after = needed.after.and_then(|_| served.next().flatten());
    Converted { before, existed: needed.existed, after, revision }
}
