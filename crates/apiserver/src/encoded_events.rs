//! Events that were encoded for one watcher and serve the others, too.
//!
//! A change is one event to most of its watchers: the same type, the same object, the same shape. Whoever comes first
//! encodes it; the rest hand out the same bytes. What is kept is what happened last, in a fixed number of places, so
//! that nothing has to be told when a change is of no more use.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::ResourceInfo;
use crate::request::Shape;
use crate::table::TableOptions;

/// How many events are kept: watchers that keep up take a batch of 64 changes each before the next one's turn comes,
/// and some changes have two or three forms.
const PLACES: usize = 256;
/// A larger event is encoded for each watcher: sending it costs far more than copying it, and with this bound all
/// places together hold 16 MiB at most.
const EVENT_MAX_BYTES: usize = 64 * 1024;

/// What decides the bytes of an event.
#[derive(Clone)]
pub(crate) struct EventId {
    /// The change's own revision: it says which object is shown, together with the type.
    pub(crate) revision: u64,
    pub(crate) kind: &'static str,
    pub(crate) shape: Shape,
    /// For Tables: its options, to the second at which the ages are told.
    pub(crate) table: Option<TableOptions>,
    /// The face that is shown. It is held, so that its address means nobody else.
    pub(crate) info: Arc<ResourceInfo>,
}

impl PartialEq for EventId {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
            && self.kind == other.kind
            && self.shape == other.shape
            && self.table == other.table
            && Arc::ptr_eq(&self.info, &other.info)
    }
}

impl EventId {
    /// Events of one change in several forms lie beside each other, and those of the next change elsewhere.
    fn place(&self) -> usize {
        let form = match self.shape {
            Shape::Object => 0,
            Shape::Metadata { .. } | Shape::MetadataList { .. } => PLACES / 2,
            Shape::Table { .. } => PLACES / 4,
        };
        (self.revision as usize).wrapping_add(form) % PLACES
    }
}

/// The last event that was encoded for this place.
type Place = Mutex<Option<(EventId, Bytes)>>;

/// The events that were encoded last.
pub(crate) struct EncodedEvents {
    places: Box<[Place]>,
}

impl Default for EncodedEvents {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }
}

impl EncodedEvents {
    /// The bytes of an event, encoded now if nobody has done so lately; none where it cannot be encoded.
    pub(crate) fn get(&self, id: EventId, encode: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let mut place = self.places[id.place()].lock();
        if let Some((kept, bytes)) = &*place
            && *kept == id
        {
            return Some(bytes.clone());
        }
        // Held while it is encoded: whoever waits here wants the same bytes.
        let bytes = encode()?;
        *place = (bytes.len() <= EVENT_MAX_BYTES).then(|| (id, bytes.clone()));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(revision: u64, kind: &'static str, info: &Arc<ResourceInfo>) -> EventId {
        EventId { revision, kind, shape: Shape::Object, table: None, info: info.clone() }
    }

    #[test]
    fn an_event_is_encoded_once_for_each_form() {
        let shared = EncodedEvents::default();
        let info = Arc::new(ResourceInfo::default());
        let first = shared.get(id(7, "ADDED", &info), || Some("a".into()));
        assert_eq!(first, shared.get(id(7, "ADDED", &info), || unreachable!("it is kept")));
        assert_eq!(shared.get(id(7, "MODIFIED", &info), || Some("b".into())), Some("b".into()));
        let other = Arc::new(ResourceInfo::default());
        assert_eq!(shared.get(id(7, "MODIFIED", &other), || Some("c".into())), Some("c".into()));
        assert_eq!(
            shared.get(id(7 + PLACES as u64, "MODIFIED", &other), || Some("d".into())),
            Some("d".into())
        );
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let shared = EncodedEvents::default();
        let info = Arc::new(ResourceInfo::default());
        shared.get(id(7, "ADDED", &info), || Some(vec![0; EVENT_MAX_BYTES + 1].into()));
        assert_eq!(shared.get(id(7, "ADDED", &info), || Some("again".into())), Some("again".into()));
    }
}
