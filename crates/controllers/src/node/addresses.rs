//! The addresses of the pods on one node.

use std::collections::BTreeMap;

use super::registry::pod_address;

/// The first and the last number that a pod may have: the ones before and after belong to the network itself.
const NUMBERS: std::ops::RangeInclusive<u32> = 2..=254;

/// Which pod has which number.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    by_pod: BTreeMap<String, u32>,
    taken: BTreeMap<u32, String>,
    /// The number that was given last: numbers are not given again at once, as in a real network.
    last: u32,
}

impl Addresses {
    /// The address of this pod on the node of that number; the same one each time.
    pub(crate) fn of(&mut self, node: usize, pod: &str) -> String {
        if let Some(number) = self.by_pod.get(pod) {
            return pod_address(node, *number);
        }
        let from = self.last.max(*NUMBERS.start() - 1) + 1;
        let mut free =
            (from..=*NUMBERS.end()).chain(NUMBERS).filter(|number| !self.taken.contains_key(number));
        // With more pods than addresses the last one is shared: a node's limit of pods rules that out by default.
        let number = free.next().unwrap_or(*NUMBERS.end());
        self.enter(pod, number);
        pod_address(node, number)
    }

    /// Takes note of the address that a pod has already.
    pub(crate) fn observe(&mut self, node: usize, pod: &str, address: &str) {
        let number = NUMBERS.into_iter().find(|number| pod_address(node, *number) == address);
        if let Some(number) = number.filter(|_| !self.by_pod.contains_key(pod)) {
            self.enter(pod, number);
        }
    }

    /// The pod is gone.
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
    }
}
