//! The rules of the built-in signers and of automatic approval.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_schema::certificate_request::CertificateRequest;

use crate::kinds::CertificateSigningRequest;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// How long a certificate is valid unless its request asks for less.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// The shortest life of a certificate: twice the time by which it begins early.
const LIFETIME_MIN: Duration = Duration::from_secs(600);

/// A kind of certificate that is approved if the requesting user may create `subresource` of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Approval {
    pub(super) subresource: &'static str,
    pub(super) message: &'static str,
}

const SELF_NODE_CLIENT: Approval = Approval {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const NODE_CLIENT: Approval = Approval {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// Returns the kinds of certificates that a request may be approved as.
pub(super) fn approvals(csr: &CertificateSigningRequest) -> Vec<Approval> {
    let Some(request) = request(csr).filter(|_| csr.is("spec/signerName", KUBELET_CLIENT)) else {
        return Vec::new();
    };
    let usages: Vec<&str> = csr.texts("spec/usages").collect();
    if kubelet_client(&request, &usages).is_err() {
        return Vec::new();
    }
    let own = csr.is("spec/username", &request.common_name);
    own.then_some(SELF_NODE_CLIENT).into_iter().chain([NODE_CLIENT]).collect()
}

/// Returns what a request asks for; `None` if it is malformed, which validation refuses.
pub(super) fn request(csr: &CertificateSigningRequest) -> Option<CertificateRequest> {
    CertificateRequest::from_field(csr.str("spec/request").unwrap_or_default()).ok()
}

/// Whether a certificate has been issued.
pub(super) fn is_issued(csr: &CertificateSigningRequest) -> bool {
    csr.str("status/certificate").is_some_and(|it| !it.is_empty())
}

/// Whether a condition of this type is true.
pub(super) fn has(csr: &CertificateSigningRequest, kind: &str) -> bool {
    csr.list("status/conditions").iter().any(|it| it.is("type", kind) && it.is("status", "True"))
}

/// Returns whether a built-in signer accepts a request, and otherwise why not; `None` for other signers.
pub(super) fn verdict(
    signer: &str,
    request: &CertificateRequest,
    usages: &[&str],
) -> Option<Result<(), String>> {
    Some(match signer {
        CLIENT => client(usages),
        KUBELET_CLIENT => kubelet_client(request, usages),
        KUBELET_SERVING => kubelet_serving(request, usages),
        // The API accepts no new requests for this signer; a stored one may be there.
        LEGACY => Ok(()),
        _ => return None,
    })
}

fn client(usages: &[&str]) -> Result<(), String> {
    let optional = ["digital signature", "key encipherment"];
    if let Some(usage) = usages.iter().find(|usage| **usage != "client auth" && !optional.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {usage}"));
    }
    match usages.contains(&"client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

fn kubelet_client(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    is_of_nodes(request)?;
    let names = [
        ("DNS", request.dns_names.is_empty()),
        ("Email", request.email_addresses.is_empty()),
        ("IP", request.ip_addresses.is_empty()),
        ("URI", request.uris.is_empty()),
    ];
    if let Some((kind, _)) = names.into_iter().find(|(_, is_empty)| !is_empty) {
        return Err(format!("{kind} subjectAltNames are not allowed"));
    }
    is_of_node(request)?;
    usages_of("client auth", usages)
}

fn kubelet_serving(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    is_of_nodes(request)?;
    if request.dns_names.is_empty() && request.ip_addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (kind, is_empty) in [("Email", request.email_addresses.is_empty()), ("URI", request.uris.is_empty())]
    {
        if !is_empty {
            return Err(format!("{kind} subjectAltNames are not allowed"));
        }
    }
    usages_of("server auth", usages)?;
    is_of_node(request)
}

fn is_of_nodes(request: &CertificateRequest) -> Result<(), String> {
    let is = request.organizations == [NODES];
    is.then_some(()).ok_or_else(|| "subject organization is not system:nodes".to_owned())
}

fn is_of_node(request: &CertificateRequest) -> Result<(), String> {
    let is = request.common_name.starts_with(NODE_PREFIX);
    is.then_some(()).ok_or_else(|| "subject common name does not begin with system:node:".to_owned())
}

/// Checks that the usages are this one and digital signatures, with or without key encipherment.
fn usages_of(purpose: &str, usages: &[&str]) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().copied().collect();
    let full = BTreeSet::from([purpose, "digital signature", "key encipherment"]);
    let without_rsa = BTreeSet::from([purpose, "digital signature"]);
    if given == full || given == without_rsa {
        return Ok(());
    }
    let listed: Vec<&str> = full.into_iter().collect();
    Err(format!("usages did not match [{}]", listed.join(" ")))
}

/// Returns the lifetime of a certificate whose request asks for this many seconds.
pub(super) fn lifetime(seconds: Option<i64>) -> Duration {
    match seconds.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or_default())) {
        Some(asked) => asked.clamp(LIFETIME_MIN, LIFETIME_MAX),
        None => LIFETIME_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> CertificateRequest {
        CertificateRequest {
            common_name: "system:node:a".to_owned(),
            organizations: vec![NODES.to_owned()],
            ..CertificateRequest::default()
        }
    }

    fn why(signer: &str, request: &CertificateRequest, usages: &[&str]) -> String {
        verdict(signer, request, usages).unwrap().err().unwrap_or_default()
    }

    #[test]
    fn client_certificates_have_only_usages_of_clients() {
        let request = CertificateRequest::default();
        assert_eq!(why(CLIENT, &request, &["client auth", "key encipherment"]), "");
        assert_eq!(
            why(CLIENT, &request, &["digital signature"]),
            "missing required usage for client certificate: client auth"
        );
        assert_eq!(
            why(CLIENT, &request, &["client auth", "server auth"]),
            "invalid usage for client certificate: server auth"
        );
    }

    #[test]
    fn client_certificates_of_nodes_have_no_names() {
        let usages = ["client auth", "digital signature"];
        assert_eq!(why(KUBELET_CLIENT, &node(), &usages), "");
        let wrong = CertificateRequest { organizations: vec!["a".to_owned(), NODES.to_owned()], ..node() };
        assert_eq!(why(KUBELET_CLIENT, &wrong, &usages), "subject organization is not system:nodes");
        let wrong = CertificateRequest { dns_names: vec!["a".to_owned()], ..node() };
        assert_eq!(why(KUBELET_CLIENT, &wrong, &usages), "DNS subjectAltNames are not allowed");
        let wrong = CertificateRequest { common_name: "a".to_owned(), ..node() };
        assert_eq!(
            why(KUBELET_CLIENT, &wrong, &usages),
            "subject common name does not begin with system:node:"
        );
        assert_eq!(
            why(KUBELET_CLIENT, &node(), &["client auth"]),
            "usages did not match [client auth digital signature key encipherment]"
        );
    }

    #[test]
    fn serving_certificates_of_nodes_have_addresses() {
        let usages = ["server auth", "digital signature", "key encipherment"];
        assert_eq!(why(KUBELET_SERVING, &node(), &usages), "DNS or IP subjectAltName is required");
        let named = CertificateRequest { dns_names: vec!["a".to_owned()], ..node() };
        assert_eq!(why(KUBELET_SERVING, &named, &usages), "");
        let wrong = CertificateRequest { uris: vec!["a:b".to_owned()], ..named.clone() };
        assert_eq!(why(KUBELET_SERVING, &wrong, &usages), "URI subjectAltNames are not allowed");
        assert_eq!(
            why(KUBELET_SERVING, &named, &["client auth"]),
            "usages did not match [digital signature key encipherment server auth]"
        );
    }

    #[test]
    fn other_signers_are_left_alone_and_lifetimes_are_bounded() {
        assert_eq!(verdict("example.com/a", &node(), &[]), None);
        assert_eq!(lifetime(None), LIFETIME_MAX);
        assert_eq!(lifetime(Some(3600)), Duration::from_secs(3600));
        assert_eq!(lifetime(Some(i64::MAX)), LIFETIME_MAX);
        assert_eq!(lifetime(Some(1)), LIFETIME_MIN);
        assert_eq!(lifetime(Some(-1)), LIFETIME_MIN);
    }
}
