//! The deletion cost of a pod: among the pods of a ReplicaSet, those with the lowest cost are deleted first. Validation
//! and the controllers read it by the same rule.

/// The annotation with the deletion cost of a pod.
pub const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Reads a deletion cost. Returns `None` for a text that Kubernetes rejects: the number must fit into 32 bits, and begin
/// with a minus sign or with a digit other than zero, unless it is `0`.
pub fn parse(text: &str) -> Option<i32> {
    let begins_well = text == "0" || text.starts_with(|first: char| matches!(first, '-' | '1'..='9'));
    begins_well.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_as_kubernetes_reads_them() {
        for (text, cost) in
            [("0", 0), ("12", 12), ("-3", -3), ("-0", 0), ("-05", -5), ("2147483647", i32::MAX)]
        {
            assert_eq!(parse(text), Some(cost), "{text}");
        }
        for text in ["", "+3", "00", "05", "-", "--5", "1.5", "x", " 1", "2147483648", "-2147483649"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
