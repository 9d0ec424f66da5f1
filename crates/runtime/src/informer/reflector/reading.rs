//! The progress of reading a list and a watch.

use std::collections::BTreeSet;

use kube::core::watch::Bookmark;

use crate::Request;
use crate::event::Origin;

/// The annotation of the bookmark that ends the initial events of a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How far a watch was read, and the list that it began with.
pub(in crate::informer) struct Reading {
    /// The resource version of the last event or bookmark.
    version: String,
    /// The list that is being read; `None` once it is complete.
    list: Option<List>,
}

/// A list that is being read into a cache.
pub(in crate::informer) struct List {
    pub(in crate::informer) origin: Origin,
    /// The keys that were in the cache before and have not appeared in the list yet.
    pub(in crate::informer) unseen: BTreeSet<Request>,
}

impl Reading {
    /// A watch from this resource version on.
    pub(in crate::informer) fn watch(version: String) -> Self {
        Self { version, list: None }
    }

    /// A list; `cached` are the keys that were in the cache before.
    pub(in crate::informer) fn list(origin: Origin, cached: BTreeSet<Request>) -> Self {
        Self { version: String::new(), list: Some(List { origin, unseen: cached }) }
    }

    /// The resource version up to which the watch was read.
    pub(in crate::informer) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn into_version(self) -> String {
        self.version
    }

    pub(super) fn is_listing(&self) -> bool {
        self.list.is_some()
    }

    /// The origin of events that are read now.
    pub(in crate::informer) fn origin(&self) -> Origin {
        self.list.as_ref().map_or(Origin::Watch, |list| list.origin)
    }

    /// Notes that an object with this resource version was read.
    pub(in crate::informer) fn passed(&mut self, version: Option<&String>) {
        if let Some(version) = version {
            self.version.clone_from(version);
        }
    }

    /// Notes that the list has the object with this key.
    pub(in crate::informer) fn seen(&mut self, key: &Request) {
        if let Some(list) = &mut self.list {
            list.unseen.remove(key);
        }
    }

    /// Notes that a bookmark was read. Returns the list if the bookmark ends it.
    pub(in crate::informer) fn marked(&mut self, bookmark: &Bookmark) -> Option<List> {
        self.version.clone_from(&bookmark.metadata.resource_version);
        let ends = bookmark.metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
        if ends { self.end_list() } else { None }
    }

    /// Ends the list. Its unseen keys belong to objects that were deleted while no watch was open.
    pub(super) fn end_list(&mut self) -> Option<List> {
        self.list.take()
    }
}
