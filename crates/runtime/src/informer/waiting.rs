//! Waiting for a cache to show a write.
//!
//! Waiters are stored by what they wait for, so that an event finds the waiters that it satisfies without a search.

use std::collections::BTreeMap;

use evenkeel_env::HashMap;
use kube::core::ObjectMeta;
use tokio::sync::oneshot;

use crate::Request;
use crate::own_writes::{Expected, Written};

/// The waiters of one informer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Waiters for a resource version, by the number of the reflector, the version and the order of arrival. Versions
    /// that are numbers are seen in ascending order.
    by_version: BTreeMap<(usize, u64, u64), oneshot::Sender<()>>,
    /// Waiters for one object: for its deletion, or for a resource version that is not a number.
    by_key: HashMap<Request, Vec<Waiter>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Waiter {
    written: Written,
    tell: oneshot::Sender<()>,
}

impl Waiting {
    /// Adds a waiter for a write that the reflector with this number will see.
    pub(super) fn enter(&mut self, scope: usize, written: &Written) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        match written.version_number() {
            Some(version) => {
                self.arrivals += 1;
                self.by_version.insert((scope, version, self.arrivals), tell);
            }
            None => {
                let waiters = self.by_key.entry(written.key.clone()).or_default();
                // Waiters that gave up are dropped when the next waiter for their key arrives.
                waiters.retain(|waiter| !waiter.tell.is_closed());
                waiters.push(Waiter { written: written.clone(), tell });
            }
        }
        told
    }

    /// Wakes waiters: the reflector with this number has seen everything up to this version.
    pub(super) fn passed(&mut self, scope: usize, version: u64) {
        while let Some(first) = self.by_version.range((scope, 0, 0)..=(scope, version, u64::MAX)).next() {
            let place = *first.0;
            if let Some(tell) = self.by_version.remove(&place) {
                let _ = tell.send(());
            }
        }
    }

    /// Wakes waiters for an object that changed or was deleted.
    pub(super) fn changed(&mut self, key: &Request, now: Option<&ObjectMeta>) {
        if self.by_key.is_empty() {
            return;
        }
        let Some(waiters) = self.by_key.remove(key) else { return };
        let mut left = Vec::new();
        for waiter in waiters.into_iter().filter(|waiter| !waiter.tell.is_closed()) {
            match is_shown(&waiter.written, now) {
                true => drop(waiter.tell.send(())),
                false => left.push(waiter),
            }
        }
        if !left.is_empty() {
            self.by_key.insert(key.clone(), left);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_version.len() + self.by_key.len()
    }
}

/// Whether the cached object alone shows that a write has reached the cache.
pub(super) fn is_shown(written: &Written, cached: Option<&ObjectMeta>) -> bool {
    match &written.expected {
        Expected::Gone => cached.is_none_or(|meta| written.uid.is_some() && meta.uid != written.uid),
        // A version that is a number is compared with the progress of the watch; any other version can only be equal.
        Expected::Version(version) => {
            cached.and_then(|meta| meta.resource_version.as_ref()).is_some_and(|cached| cached == version)
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ApiResource;

    use super::*;

    fn written(expected: Expected) -> Written {
        let resource = ApiResource::erase::<ConfigMap>(&());
        Written { resource, key: Request::namespaced("a", "one"), uid: Some("1".into()), expected }
    }

    fn meta(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta { uid: Some(uid.into()), resource_version: Some(version.into()), ..ObjectMeta::default() }
    }

    #[test]
    fn a_version_wakes_those_it_passes_in_its_own_scope() {
        let mut waiting = Waiting::default();
        let mut early = waiting.enter(0, &written(Expected::Version("9".into())));
        let mut late = waiting.enter(0, &written(Expected::Version("10".into())));
        let mut elsewhere = waiting.enter(1, &written(Expected::Version("9".into())));
        waiting.passed(0, 9);
        assert!(early.try_recv().is_ok());
        assert!(late.try_recv().is_err(), "compared as numbers, not as text");
        assert!(elsewhere.try_recv().is_err(), "another namespace's watch says nothing of this one's");
        waiting.passed(0, 11);
        assert!(late.try_recv().is_ok());
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn versions_that_are_no_numbers_are_waited_for_by_equality() {
        let mut waiting = Waiting::default();
        let key = Request::namespaced("a", "one");
        let mut told = waiting.enter(0, &written(Expected::Version("b-7".into())));
        waiting.passed(0, u64::MAX);
        waiting.changed(&key, Some(&meta("1", "a-9")));
        assert!(told.try_recv().is_err());
        waiting.changed(&key, Some(&meta("1", "b-7")));
        assert!(told.try_recv().is_ok());
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn a_deletion_is_shown_when_that_uid_is_gone() {
        let mut waiting = Waiting::default();
        let key = Request::namespaced("a", "one");
        let mut told = waiting.enter(0, &written(Expected::Gone));
        waiting.changed(&key, Some(&meta("1", "12")));
        assert!(told.try_recv().is_err());
        waiting.changed(&key, Some(&meta("2", "13")));
        assert!(told.try_recv().is_ok(), "another object has the name");
        drop(waiting.enter(0, &written(Expected::Gone)));
        waiting.changed(&key, None);
        assert_eq!(waiting.len(), 0, "who gave up is let go");
    }
}
