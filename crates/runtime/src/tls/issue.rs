//! Makes certificates for servers.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

/// A new certificate with its key, and the CA that signed it, as PEM. The key of the CA is discarded.
pub(crate) struct Issued {
    #[cfg_attr(
        not(feature = "webhook-server"),
        expect(dead_code, reason = "only webhooks tell their clients")
    )]
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The validity period of a new certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Validity {
    /// Valid from `early` before `now`, because clocks differ, for the duration `valid`.
    pub(crate) fn from(now: Timestamp, early: SignedDuration, valid: SignedDuration) -> Self {
        let at = |by: SignedDuration| now.saturating_add(by).unwrap_or(now);
        Self { from: at(-early), until: at(valid) }
    }
}

/// Makes a certificate for a server with these names, and a CA that signs it. `subject` is the common name of the
/// certificate, `ca_subject` that of the CA: verifiers look for a CA by its name.
pub(crate) fn issue(
    (subject, ca_subject): (&str, &str),
    names: &[String],
    validity: Validity,
) -> Result<Issued, rcgen::Error> {
    let ca_key = KeyPair::generate()?;
    let mut ca = params(&[], ca_subject, validity)?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let ca_certificate = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate()?;
    let mut server = params(names, subject, validity)?;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let certificate = server.signed_by(&key, &issuer)?.pem();
    Ok(Issued { ca: ca_certificate, certificate, key: key.serialize_pem() })
}

fn params(
    names: &[String],
    common_name: &str,
    validity: Validity,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let date = |at: Timestamp| {
        let date = at.to_zoned(TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = date(validity.from);
    params.not_after = date(validity.until);
    Ok(params)
}
