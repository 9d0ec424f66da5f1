//! A cache of encoded watch events, shared by all watches.
//!
//! Most watches of a change get the same event: the same type, object and shape. The first one encodes it;
//! the others reuse its bytes. The cache has a fixed number of slots for the latest events, so that it needs
//! no invalidation.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::ResourceInfo;
use crate::request::Shape;
use crate::table::TableOptions;

/// The number of cached events. Watches that keep up read a batch of up to 64 changes each before the next
/// watch's turn, and some changes have two or three forms.
const PLACES: usize = 256;
/// The largest cached event. A larger one is encoded for each watch, because sending it costs far more than
/// encoding it. This bounds the cache to 16 MiB.
const EVENT_MAX_BYTES: usize = 64 * 1024;

/// Everything that determines the bytes of an event.
#[derive(Clone)]
pub(crate) struct EventId {
    /// The revision of the change; with the type it determines the object.
    pub(crate) revision: u64,
    pub(crate) kind: &'static str,
    pub(crate) shape: Shape,
    /// The options of a Table, with the time truncated to seconds, since ages are printed in seconds.
    pub(crate) table: Option<TableOptions>,
    /// The resource whose version is sent. It is compared by address, so it must be kept alive.
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
    /// The slot of an event. Different forms of one change, and the next changes, have different slots.
    fn place(&self) -> usize {
        let form = match self.shape {
            Shape::Object => 0,
            Shape::Metadata { .. } | Shape::MetadataList { .. } => PLACES / 2,
            Shape::Table { .. } => PLACES / 4,
        };
        (self.revision as usize).wrapping_add(form) % PLACES
    }
}

/// A slot with the last event that was encoded for it.
type Place = Mutex<Option<(EventId, Bytes)>>;

/// The cache of encoded events.
pub(crate) struct EncodedEvents {
    places: Box<[Place]>,
}

impl Default for EncodedEvents {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }
}

impl EncodedEvents {
    /// Returns the bytes of an event; encodes it if it is not cached. `None` if it cannot be encoded.
    pub(crate) fn get(&self, id: EventId, encode: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let mut place = self.places[id.place()].lock();
        if let Some((kept, bytes)) = &*place
            && *kept == id
        {
            return Some(bytes.clone());
        }
        // Locked while the event is encoded, because others who wait need the same bytes.
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
