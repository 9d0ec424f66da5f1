//! Makes certificates.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use super::plan::{EARLY, VALID};
use super::state::{Key, Pair};
use crate::webhook::tls::Facts;

/// Makes a certificate for a server with these names, and the CA that signs it. The key of the CA is not kept.
pub(super) fn issue(operator: &str, names: &[String], now: Timestamp) -> Result<Pair, rcgen::Error> {
    // The time in the name tells the CAs in one bundle apart: verifiers look for a CA by its name.
    let ca_key = KeyPair::generate()?;
    let mut ca = params(&[], &format!("{operator} webhooks CA {}", now.as_second()), now)?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let ca_certificate = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate()?;
    let mut server = params(names, &format!("{operator} webhooks"), now)?;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let certificate = server.signed_by(&key, &issuer)?.pem();
    let facts = Facts::of_pem(certificate.as_bytes()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    Ok(Pair { ca: ca_certificate, certificate, key: Key::new(key.serialize_pem()), facts })
}

fn params(names: &[String], common_name: &str, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let date = |by: SignedDuration| {
        let date = now.saturating_add(by).unwrap_or(now).to_zoned(TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = date(-EARLY);
    params.not_after = date(VALID);
    Ok(params)
}
