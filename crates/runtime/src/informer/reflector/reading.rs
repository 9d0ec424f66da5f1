//! How far a watch was read.

use std::collections::BTreeSet;

use kube::core::watch::Bookmark;

use crate::Request;
use crate::event::Origin;

/// The annotation of the bookmark that ends the initial events of a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Where a watch stands, and the list that it began with.
pub(in crate::informer) struct Reading {
    /// That of the last event or bookmark.
    version: String,
    /// None once the list is complete.
    list: Option<List>,
}

/// A list that is being brought into a cache.
pub(in crate::informer) struct List {
    pub(in crate::informer) origin: Origin,
    /// What was in the cache before and has not been in the list yet.
    pub(in crate::informer) unseen: BTreeSet<Request>,
}

impl Reading {
    /// A watch from this version on.
    pub(in crate::informer) fn watch(version: String) -> Self {
        Self { version, list: None }
    }

    /// A list; `cached` is what was known before.
    pub(in crate::informer) fn list(origin: Origin, cached: BTreeSet<Request>) -> Self {
        Self { version: String::new(), list: Some(List { origin, unseen: cached }) }
    }

    /// Up to which version it was read.
    pub(in crate::informer) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn into_version(self) -> String {
        self.version
    }

    pub(super) fn is_listing(&self) -> bool {
        self.list.is_some()
    }

    /// Why an event that is read now is sent.
    pub(in crate::informer) fn origin(&self) -> Origin {
        self.list.as_ref().map_or(Origin::Watch, |list| list.origin)
    }

    /// An object of this version was read.
    pub(in crate::informer) fn passed(&mut self, version: Option<&String>) {
        if let Some(version) = version {
            self.version.clone_from(version);
        }
    }

    /// The object of this key is there.
    pub(in crate::informer) fn seen(&mut self, key: &Request) {
        if let Some(list) = &mut self.list {
            list.unseen.remove(key);
        }
    }

    /// A bookmark was read; gives the list where it ends one.
    pub(in crate::informer) fn marked(&mut self, bookmark: &Bookmark) -> Option<List> {
        self.version.clone_from(&bookmark.metadata.resource_version);
        let ends = bookmark.metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
        if ends { self.end_list() } else { None }
    }

    /// The list is complete: what it has not shown was deleted while nobody watched.
    pub(super) fn end_list(&mut self) -> Option<List> {
        self.list.take()
    }
}
