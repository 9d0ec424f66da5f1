//! The addresses of the pods on one node.

use std::collections::BTreeMap;

use super::registration::{pod_address, pod_number};

/// The numbers that a pod may have. The ones before and after belong to the network itself.
const NUMBERS: std::ops::RangeInclusive<u32> = 2..=254;

/// Assigns numbers to the pods of one node.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    by_pod: BTreeMap<String, u32>,
    taken: BTreeMap<u32, String>,
    /// The number that was assigned last. A free number is not assigned again at once, as in a real network.
    last: u32,
}

impl Addresses {
    /// Returns the address of a pod, and assigns one if it has none.
    pub(crate) fn of(&mut self, node: usize, pod: &str) -> String {
        if let Some(number) = self.by_pod.get(pod) {
            return pod_address(node, *number);
        }
        let from = self.last.max(*NUMBERS.start() - 1) + 1;
        let mut free =
            (from..=*NUMBERS.end()).chain(NUMBERS).filter(|number| !self.taken.contains_key(number));
        // With more pods than addresses, the last one is shared. The default limit of pods on a node rules that out.
        let number = free.next().unwrap_or(*NUMBERS.end());
        self.enter(pod, number);
        pod_address(node, number)
    }

    /// Records the address that a pod already has.
    pub(crate) fn observe(&mut self, node: usize, pod: &str, address: &str) {
        if self.by_pod.contains_key(pod) {
            return;
        }
        if let Some(number) = pod_number(node, address).filter(|number| NUMBERS.contains(number)) {
            self.enter(pod, number);
        }
    }

    /// Frees the address of a deleted pod.
    pub(crate) fn forget(&mut self, pod: &str) {
        if let Some(number) = self.by_pod.remove(pod) {
            self.taken.remove(&number);
        }
    }

    fn enter(&mut self, pod: &str, number: u32) {
        self.last = number;
        self.by_pod.insert(pod.to_owned(), number);
        self.taken.insert(number, pod.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept_and_given_again_late() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.of(0, "a"), "10.244.0.2");
        assert_eq!(addresses.of(0, "b"), "10.244.0.3");
        assert_eq!(addresses.of(0, "a"), "10.244.0.2");
        addresses.forget("a");
        assert_eq!(addresses.of(0, "c"), "10.244.0.4");
        addresses.observe(0, "d", "10.244.0.254");
        assert_eq!(addresses.of(0, "e"), "10.244.0.2");
        for foreign in ["10.244.1.7", "10.244.0.255", "172.20.0.10", "fd00::2", ""] {
            addresses.observe(0, foreign, foreign);
            assert!(!addresses.by_pod.contains_key(foreign), "{foreign} is no address of the node's pods");
        }
    }
}
