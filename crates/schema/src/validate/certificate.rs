//! CertificateSigningRequests.

use base64::Engine;

use crate::field::{FieldError, Path};
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
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    if !is_request(spec.str("request")) {
        let shown = spec.at("request").cloned().unwrap_or(Value::Null);
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid(path.child("request"), shown, detail));
    }
    usages(&path.child("usages"), &spec.strs("usages"), &mut errors);
    signer(&path.child("signerName"), spec.str("signerName"), &mut errors);
    if let Some(seconds) = spec.int("expirationSeconds").filter(|it| *it < EXPIRATION_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(path.child("expirationSeconds"), seconds, detail));
    }
    errors
}

/// Whether the bytes begin with a PEM block of the right type. Its content is not checked.
fn is_request(encoded: &str) -> bool {
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    let first = text.split_once("-----BEGIN ").and_then(|(_, rest)| rest.split_once("-----"));
    first.is_some_and(|(kind, _)| kind == "CERTIFICATE REQUEST")
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
