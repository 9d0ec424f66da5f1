//! How long a CertificateSigningRequest is kept.

use jiff::Timestamp;

use super::signers;
use crate::clock;
use crate::kinds::CertificateSigningRequest;
use crate::object::Fields;

/// How long a request is kept after it was issued, denied or failed.
const DONE_SECONDS: i64 = 3600;
/// How long a request is kept that nobody decides on, or that nobody signs.
const PENDING_SECONDS: i64 = 24 * 3600;

/// Returns when a request is deleted, unless it changes before.
pub(super) fn end(csr: &CertificateSigningRequest) -> Option<Timestamp> {
    let conditions = csr.list("status/conditions");
    if conditions.is_empty() {
        let created = csr.metadata.creation_timestamp.as_ref()?.0;
        return Some(clock::after(created, PENDING_SECONDS));
    }
    let ends = conditions.iter().filter_map(|condition| {
        let seconds = match condition.str("type")? {
            "Denied" | "Failed" => DONE_SECONDS,
            "Approved" if signers::is_issued(csr) => DONE_SECONDS,
            "Approved" => PENDING_SECONDS,
            _ => return None,
        };
        Some(clock::after(condition.time("lastUpdateTime")?, seconds))
    });
    ends.min()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::object;

    fn end_of(status: Value) -> Option<String> {
        let metadata = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"});
        end(&object(json!({"metadata": metadata, "status": status}))).map(|it| it.to_string())
    }

    #[test]
    fn a_request_ends_by_its_conditions() {
        let at =
            |kind: &str| json!({"type": kind, "status": "True", "lastUpdateTime": "2026-01-01T10:00:00Z"});
        let of = |kind: &str| json!({"conditions": [at(kind)]});
        assert_eq!(end_of(json!({})).as_deref(), Some("2026-01-02T00:00:00Z"));
        assert_eq!(end_of(of("Denied")).as_deref(), Some("2026-01-01T11:00:00Z"));
        assert_eq!(end_of(of("Approved")).as_deref(), Some("2026-01-02T10:00:00Z"));
        let issued = json!({"certificate": "YQ==", "conditions": [at("Approved")]});
        assert_eq!(end_of(issued).as_deref(), Some("2026-01-01T11:00:00Z"));
        let both = json!({"conditions": [at("Approved"), at("Failed")]});
        assert_eq!(end_of(both).as_deref(), Some("2026-01-01T11:00:00Z"));
        assert_eq!(end_of(of("Other")), None);
    }
}
