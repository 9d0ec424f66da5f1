//! The plugins for CertificateSigningRequests: who may approve and sign for a signer, and whom a request may not name.

use evenkeel_schema::certificate_request::CertificateRequest;
use evenkeel_schema::json::Value;

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::access::{Attributes, Decision, Target};
use crate::registry::GroupResource;
use crate::status::{Result, Status};

const GROUP: &str = "certificates.k8s.io";
const RESOURCE: &str = "certificatesigningrequests";
const REQUESTS: [GroupResource; 1] = [GroupResource::new(GROUP, RESOURCE)];
/// The signer of client certificates, which name a user and groups of the API server.
const API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// The group that may do everything, whatever the rules say.
const MASTERS: &str = "system:masters";

/// The CertificateApproval plugin: only those who hold `approve` on a signer may approve or deny its requests.
#[derive(Debug)]
pub(super) struct Approval;

/// The CertificateSigning plugin: only those who hold `sign` on a signer may write certificates and conditions.
#[derive(Debug)]
pub(super) struct Signing;

/// The CertificateSubjectRestriction plugin: no request may ask for a client certificate of the group `system:masters`.
#[derive(Debug)]
pub(super) struct SubjectRestriction;

const UPDATES: Handles =
    Handles { operations: &[Operation::Update], resources: &REQUESTS, subresources: true };

impl Plugin for Approval {
    fn handles(&self) -> Handles {
        UPDATES
    }

    fn validate(&self, admission: &Admission<'_>, _: &Value) -> Result<()> {
        match &*admission.ctx.path.subresource {
            "approval" => check(admission, "approve"),
            _ => Ok(()),
        }
    }
}

impl Plugin for Signing {
    fn handles(&self) -> Handles {
        UPDATES
    }

    fn validate(&self, admission: &Admission<'_>, request: &Value) -> Result<()> {
        let signed = |field: &str| {
            let before = admission.old.map_or(&Value::Null, |old| &old["status"][field]);
            before != &request["status"][field]
        };
        match &*admission.ctx.path.subresource {
            "status" if signed("certificate") || signed("conditions") => check(admission, "sign"),
            _ => Ok(()),
        }
    }
}

/// Refuses a write by a user who does not hold the verb on the signer of the stored request.
fn check(admission: &Admission<'_>, verb: &str) -> Result<()> {
    let signer = admission.old.and_then(|old| old["spec"]["signerName"].as_str()).unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    if may(admission, verb, signer) || may(admission, verb, &format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(Status::not_admitted(GROUP, RESOURCE, admission.shown_name(), &why))
}

/// Whether the user holds the verb on a signer.
fn may(admission: &Admission<'_>, verb: &str, signer: &str) -> bool {
    let target = Target::Resource {
        group: GROUP,
        version: "*",
        resource: "signers",
        subresource: "",
        namespace: "",
        name: signer,
    };
    let attributes = Attributes { user: admission.ctx.user, verb, target };
    matches!(admission.ctx.services.authorizer.authorize(&attributes), Decision::Allow(_))
}

impl Plugin for SubjectRestriction {
    fn handles(&self) -> Handles {
        Handles::creation_of(&REQUESTS)
    }

    fn validate(&self, admission: &Admission<'_>, request: &Value) -> Result<()> {
        let spec = &request["spec"];
        if spec["signerName"] != API_SERVER_CLIENT {
            return Ok(());
        }
        let refuse = |why: &str| Status::not_admitted(GROUP, RESOURCE, admission.shown_name(), why);
        let read = CertificateRequest::from_field(spec["request"].as_str().unwrap_or_default());
        let request = read.map_err(|why| refuse(&format!("failed to parse CSR: {why}")))?;
        if request.organizations.iter().any(|group| group == MASTERS) {
            let why = format!("use of {API_SERVER_CLIENT} signer with {MASTERS} group is not allowed");
            return Err(refuse(&why));
        }
        Ok(())
    }
}
