//! CertificateSigningRequests.

use base64::Engine;

use crate::certificate_request::CertificateRequest;
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const EXPIRATION_SECONDS_MIN: i64 = 600;
const LEGACY: &str = "kubernetes.io/legacy-unknown";

pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, false, NameRule::PathSegment);
    request(object, None, &mut errors);
    errors
}

/// Validates the request, its conditions and its certificate. `old` is the stored object.
fn request(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    if let Err(detail) = CertificateRequest::from_field(spec.str("request")) {
        let shown = spec.at("request").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path.child("request"), shown, detail));
    }
    usages(&path.child("usages"), &spec.strs("usages"), errors);
    signer(&path.child("signerName"), spec.str("signerName"), errors);
    if let Some(seconds) = spec.int("expirationSeconds").filter(|it| *it < EXPIRATION_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(path.child("expirationSeconds"), seconds, detail));
    }
    let path = Path::new("status");
    conditions(&path.child("conditions"), object, old, errors);
    let certificate = object.at("status").str("certificate");
    let unchanged = old.is_some_and(|old| old.at("status").str("certificate") == certificate);
    if let Some(why) = certificate_error(certificate).filter(|_| !unchanged) {
        errors.push(FieldError::invalid(path.child("certificate"), "<certificate data>", why));
    }
}

fn usages(path: &Path<'_>, usages: &[&str], errors: &mut Vec<FieldError>) {
    if usages.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        super::field_rules::supported(&path.index(index), usage, &USAGES, errors);
    }
    for (index, usage) in usages.iter().enumerate() {
        if usages[..index].contains(usage) {
            errors.push(FieldError::duplicate(path.index(index), *usage));
        }
    }
}

fn signer(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if name == LEGACY {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    }
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let parts: Vec<&str> = name.split('/').collect();
    let &[domain, rest] = parts.as_slice() else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    };
    for message in names::dns1123_subdomain(domain) {
        errors.push(FieldError::invalid(path, domain, format!("validating label {domain:?}: {message}")));
    }
    if !domain.contains('.') {
        errors.push(FieldError::invalid(
            path,
            domain,
            "should be a domain with at least two segments separated by dots",
        ));
    }
    for message in rest.split('.').flat_map(names::dns1123_label) {
        errors.push(FieldError::invalid(path, rest, message));
    }
}

/// The conditions that only the approval subresource sets.
const APPROVAL: [&str; 2] = ["Approved", "Denied"];
/// The conditions that cannot be removed or changed.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Validates an update of the request, or of its `status` or `approval`.
pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(new, false, NameRule::PathSegment);
    request(new, Some(old), &mut errors);
    let path = Path::new("status");
    let conditions = path.child("conditions");
    let (after, before) = (new.at("status"), old.at("status"));
    for kind in FINAL {
        if of_type(after, kind).len() < of_type(before, kind).len() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(conditions, detail));
        }
    }
    for kind in APPROVAL.iter().filter(|_| subresource != "approval") {
        let (after, before) = (of_type(after, kind), of_type(before, kind));
        if after.len() > before.len() {
            let detail = format!("updates may not add a condition of type {kind:?}");
            errors.push(FieldError::forbidden(conditions, detail));
        } else if after.len() == before.len() && after != before {
            let name = "[certificates.CertificateSigningRequestCondition";
            let diff = internal_structs::diff(name, Some(&Value::from(before)), Some(&Value::from(after)));
            let detail = format!("updates may not modify a condition of type {kind:?}\n{diff}");
            errors.push(FieldError::forbidden(conditions, detail));
        }
    }
    if after.str("certificate") != before.str("certificate") {
        let detail = match subresource {
            "status" if before.str("certificate").is_empty() => None,
            "status" => Some("updates may not modify existing certificate content"),
            _ => Some("updates may not set certificate content"),
        };
        errors.extend(detail.map(|detail| FieldError::forbidden(path.child("certificate"), detail)));
    }
    errors.extend(object_meta::update_builtin(new, old));
    errors
}

fn of_type(status: Option<&Value>, kind: &str) -> Vec<Value> {
    status.list("conditions").iter().filter(|it| it.str("type") == kind).cloned().collect()
}

/// Validates the conditions. Problems that the stored object already has are accepted.
fn conditions(path: &Path<'_>, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let conditions = new.at("status").list("conditions");
    let before: Vec<&str> = old.at("status").list("conditions").iter().map(|it| it.str("type")).collect();
    let repeats = |types: &[&str]| (1..types.len()).any(|index| types[..index].contains(&types[index]));
    let both = APPROVAL.iter().all(|kind| before.contains(kind));
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let kind = condition.str("type");
        if kind.is_empty() && !before.contains(&"") {
            errors.push(FieldError::required(at.child("type"), ""));
        }
        let allowed: &[&str] = if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        super::field_rules::one_of(&at.child("status"), condition.str("status"), allowed, errors);
        let earlier = |kind: &str| conditions[..index].iter().any(|it| it.str("type") == kind);
        let exclusive = match kind {
            "Approved" => earlier("Denied"),
            "Denied" => earlier("Approved"),
            _ => false,
        };
        if exclusive && !both {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(path, kind, detail));
        }
        if earlier(kind) && !repeats(&before) {
            errors.push(FieldError::duplicate(at.child("type"), kind));
        }
    }
}

/// Returns why the bytes are not a list of PEM certificates, or `None`. The content of the blocks is not checked.
fn certificate_error(encoded: &str) -> Option<String> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    if decoded.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(&decoded);
    let blocks = text.split("-----BEGIN ").skip(1);
    let kinds: Vec<&str> = blocks.filter_map(|block| Some(block.split_once("-----")?.0)).collect();
    match kinds.iter().find(|kind| **kind != "CERTIFICATE") {
        Some(kind) => Some(format!("only CERTIFICATE PEM blocks are allowed, found {kind:?}")),
        None if kinds.is_empty() => Some("must contain at least one CERTIFICATE PEM block".to_owned()),
        None => None,
    }
}
