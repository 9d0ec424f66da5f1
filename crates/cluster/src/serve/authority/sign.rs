//! Signs certificates for the requests of others, by the rules of Kubernetes' signers.
//!
//! A certificate has the subject and the key of its request, byte for byte. A subject may name several organizations,
//! but rcgen, which makes the cluster's own certificates, keeps only one. So these certificates are encoded here.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_controllers::CertificateSigner;
use evenkeel_env::Env;
use evenkeel_schema::certificate_request::CertificateRequest;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::SigningKey as _;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};

use super::{Authority, AuthorityError};

/// How long before now a certificate's validity begins, for machines whose clocks are behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// The lifetime from which on [`BACKDATE`] is part of it, as in Kubernetes. A certificate with a shorter lifetime is
/// valid that long from now on.
const SHORT: Duration = Duration::from_secs(8 * 3600);
/// How many bytes of randomness a serial number has.
const SERIAL_BYTES: usize = 16;
/// How many characters a line of a PEM block has.
const PEM_LINE: usize = 64;

// Types of DER values.
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const KEY_ID: u8 = 0x80;
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

// Algorithms, with their type and length.
const ECDSA_SHA256: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ED25519: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];

// The last byte of the identifiers 2.5.29.x of extensions.
const KEY_USAGE: u8 = 15;
const ALTERNATIVE_NAME: u8 = 17;
const BASIC_CONSTRAINTS: u8 = 19;
const AUTHORITY_KEY_ID: u8 = 35;
const EXTENDED_KEY_USAGE: u8 = 37;

/// The usages that are bits of one extension, by the number of the bit.
const BITS: [(&str, usize); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

const PURPOSE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03];

/// The usages that are purposes, in the order in which they are written: the end of the identifier `1.3.6.1.5.5.7.3.x`.
const PURPOSES: [(&str, u8); 10] = [
    ("server auth", 1),
    ("client auth", 2),
    ("code signing", 3),
    ("email protection", 4),
    ("s/mime", 4),
    ("ipsec end system", 5),
    ("ipsec tunnel", 6),
    ("ipsec user", 7),
    ("timestamping", 8),
    ("ocsp signing", 9),
];
const ANY_PURPOSE: (&str, &[u8]) = ("any", &[0x55, 0x1d, 0x25, 0x00]);
const OTHER_PURPOSES: [(&str, &[u8]); 2] = [
    ("microsoft sgc", &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x0a, 0x03, 0x03]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x04, 0x01]),
];

/// Signs in the name of a cluster's authority, which is created at the first signature unless it exists.
#[derive(Clone)]
pub(crate) struct ClusterSigner {
    pub(crate) authority: Arc<OnceLock<Authority>>,
    pub(crate) env: Env,
}

impl std::fmt::Debug for ClusterSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterSigner").finish_non_exhaustive()
    }
}

/// A certificate could not be signed.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error("unable to verify certificate request signature")]
    Signature,
    #[error("the certificate of the authority cannot be read")]
    Issuer,
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Timestamp),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("cannot sign")]
    Key(#[from] rcgen::Error),
}

impl CertificateSigner for ClusterSigner {
    fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let authority = match self.authority.get() {
            Some(authority) => authority,
            None => {
                let new = Authority::new(&self.env)?;
                self.authority.get_or_init(|| new)
            }
        };
        let mut serial = [0; SERIAL_BYTES];
        self.env.fill(&mut serial);
        Ok(authority.certify(request, usages, lifetime, now, &serial)?)
    }
}

impl Authority {
    /// Returns the certificate for a request in PEM.
    fn certify(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        lifetime: Duration,
        now: Timestamp,
        serial: &[u8],
    ) -> Result<String, SignError> {
        let (_, signed) =
            X509CertificationRequest::from_der(&request.der).map_err(|_| SignError::Signature)?;
        signed.verify_signature().map_err(|_| SignError::Signature)?;
        let chain = crate::tls::certificates(self.certificate.as_bytes()).map_err(|_| SignError::Issuer)?;
        let own = chain.first().ok_or(SignError::Issuer)?;
        let (_, own) = X509Certificate::from_der(own).map_err(|_| SignError::Issuer)?;
        let last = Timestamp::from_second(own.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
        if now >= last {
            return Err(SignError::Expired(last));
        }
        let key = self.issuer.key();
        let algorithm = if key.is_compatible(&rcgen::PKCS_ED25519) { ED25519 } else { ECDSA_SHA256 };
        let content = value(
            SEQUENCE,
            &[
                &value(VERSION, &[&value(INTEGER, &[&[2]])]),
                &integer(serial),
                algorithm,
                own.subject().as_raw(),
                &validity(now, lifetime, last),
                &request.subject,
                &request.public_key,
                &value(EXTENSIONS, &[&value(SEQUENCE, &[&extensions(request, usages, key_id(&own))])]),
            ],
        );
        let signature = key.sign(&content)?;
        let whole = value(SEQUENCE, &[&content, algorithm, &value(BIT_STRING, &[&[0], &signature])]);
        Ok(pem(&whole))
    }
}

/// Returns the identifier of the authority's key.
fn key_id<'a>(own: &X509Certificate<'a>) -> Option<&'a [u8]> {
    own.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    })
}

/// Returns the encoded validity of a certificate, which never ends after that of the authority.
fn validity(now: Timestamp, lifetime: Duration, last: Timestamp) -> Vec<u8> {
    let ends_early = if lifetime < SHORT { SignedDuration::ZERO } else { BACKDATE };
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
    let from = now.checked_sub(BACKDATE).unwrap_or(now);
    let until = now.checked_add(lifetime.saturating_sub(ends_early)).unwrap_or(last).min(last);
    value(SEQUENCE, &[&time(from), &time(until)])
}

fn extensions(request: &CertificateRequest, usages: &[&str], key_id: Option<&[u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    all.extend(key_usage(usages).map(|bits| extension(KEY_USAGE, true, &bits)).unwrap_or_default());
    let purposes = purposes(usages);
    if !purposes.is_empty() {
        all.extend(extension(EXTENDED_KEY_USAGE, false, &value(SEQUENCE, &[&purposes])));
    }
    all.extend(extension(BASIC_CONSTRAINTS, true, &value(SEQUENCE, &[])));
    if let Some(id) = key_id {
        all.extend(extension(AUTHORITY_KEY_ID, false, &value(SEQUENCE, &[&value(KEY_ID, &[id])])));
    }
    let names = alternative_names(request);
    if !names.is_empty() {
        // An empty subject is an empty sequence: two bytes.
        all.extend(extension(ALTERNATIVE_NAME, request.subject.len() <= 2, &value(SEQUENCE, &[&names])));
    }
    all
}

fn extension(id: u8, critical: bool, content: &[u8]) -> Vec<u8> {
    let critical = if critical { value(BOOLEAN, &[&[0xff]]) } else { Vec::new() };
    value(SEQUENCE, &[&value(OID, &[&[0x55, 0x1d, id]]), &critical, &value(OCTET_STRING, &[content])])
}

/// Returns the bits of the usages, from the left; `None` if there are none.
fn key_usage(usages: &[&str]) -> Option<Vec<u8>> {
    let set = BITS.iter().filter(|(usage, _)| usages.contains(usage)).map(|(_, bit)| *bit);
    let bits = set.fold(0_u16, |bits, bit| bits | (0x8000 >> bit));
    let unused = bits.trailing_zeros().min(15) % 8;
    let bytes = bits.to_be_bytes();
    let shown = if bytes[1] == 0 { &bytes[..1] } else { &bytes[..] };
    (bits != 0).then(|| value(BIT_STRING, &[&[unused.try_into().unwrap_or(0)], shown]))
}

fn purposes(usages: &[&str]) -> Vec<u8> {
    let mut all = Vec::new();
    if usages.contains(&ANY_PURPOSE.0) {
        all.extend(value(OID, &[ANY_PURPOSE.1]));
    }
    let mut numbers: Vec<u8> =
        PURPOSES.iter().filter(|(usage, _)| usages.contains(usage)).map(|(_, number)| *number).collect();
    numbers.dedup();
    numbers.iter().for_each(|number| all.extend(value(OID, &[PURPOSE, &[*number]])));
    let others = OTHER_PURPOSES.iter().filter(|(usage, _)| usages.contains(usage));
    others.for_each(|(_, id)| all.extend(value(OID, &[id])));
    all
}

fn alternative_names(request: &CertificateRequest) -> Vec<u8> {
    let texts = |kind: u8, texts: &[String]| -> Vec<u8> {
        texts.iter().flat_map(|text| value(kind, &[text.as_bytes()])).collect()
    };
    let address = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => value(IP, &[&ip.octets()]),
        IpAddr::V6(ip) => value(IP, &[&ip.octets()]),
    };
    let mut names = texts(DNS, &request.dns_names);
    names.extend(texts(EMAIL, &request.email_addresses));
    names.extend(request.ip_addresses.iter().flat_map(address));
    names.extend(texts(URI, &request.uris));
    names
}

/// Writes a positive number.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|it| *it != 0).unwrap_or(bytes.len().saturating_sub(1));
    let digits = &bytes[start..];
    let sign: &[u8] = if digits.first().is_some_and(|it| it & 0x80 != 0) { &[0] } else { &[] };
    value(INTEGER, &[sign, digits])
}

fn time(at: Timestamp) -> Vec<u8> {
    let at = at.to_zoned(TimeZone::UTC);
    // Until 2049, the year has two digits.
    let (kind, form) =
        if at.year() < 2050 { (UTC_TIME, "%y%m%d%H%M%SZ") } else { (GENERALIZED_TIME, "%Y%m%d%H%M%SZ") };
    value(kind, &[at.strftime(form).to_string().as_bytes()])
}

/// Writes a DER value: its type, its length, and its content in parts.
fn value(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![kind];
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let digits = &bytes[bytes.iter().position(|it| *it != 0).unwrap_or(bytes.len() - 1)..];
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or(0x7f));
            out.extend(digits);
        }
    }
    parts.iter().for_each(|part| out.extend(*part));
    out
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.as_bytes().chunks(PEM_LINE) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_schema::certificate_request::Subject;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn request() -> CertificateRequest {
        let mut params = CertificateParams::new(vec!["a.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "u");
        params.distinguished_name.push(DnType::OrganizationName, "g");
        let key = KeyPair::generate().unwrap();
        CertificateRequest::from_der(params.serialize_request(&key).unwrap().der()).unwrap()
    }

    fn signed(usages: &[&str], lifetime: Duration) -> (Authority, Vec<u8>) {
        let authority = Authority::new(&Env::seeded(1)).unwrap();
        let text = authority.certify(&request(), usages, lifetime, authority.now, &[0, 0x80, 1]).unwrap();
        let certificate = crate::tls::certificates(text.as_bytes()).unwrap().remove(0);
        (authority, certificate.to_vec())
    }

    #[test]
    fn a_certificate_is_that_of_its_request_and_its_authority() {
        let lifetime = Duration::from_secs(3600);
        let (authority, der) =
            signed(&["client auth", "digital signature", "s/mime", "email protection"], lifetime);
        let (rest, certificate) = X509Certificate::from_der(&der).unwrap();
        assert!(rest.is_empty());
        let own = crate::tls::certificates(authority.certificate().as_bytes()).unwrap().remove(0);
        let (_, own) = X509Certificate::from_der(&own).unwrap();
        certificate.verify_signature(Some(own.public_key())).unwrap();
        assert_eq!(certificate.issuer(), own.subject());
        assert_eq!(certificate.subject().to_string(), "CN=u, O=g");
        let valid = certificate.validity();
        assert_eq!(valid.not_before.timestamp(), authority.now.as_second() - 300);
        assert_eq!(valid.not_after.timestamp(), authority.now.as_second() + 3600);
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && usage.flags == 1, "{usage:?}");
        let purposes = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(purposes.client_auth && purposes.email_protection && !purposes.server_auth);
        assert!(!certificate.is_ca());
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 2);
        assert!(!names.critical);
    }

    /// The request was judged by its last common name, and the client of its certificate was taken for the first.
    #[test]
    fn a_certificate_is_for_the_user_whom_the_signer_has_read() {
        let name = |kind: u8, text: &str| {
            value(
                0x31,
                &[&value(SEQUENCE, &[&value(OID, &[&[0x55, 0x04, kind]]), &value(0x0c, &[text.as_bytes()])])],
            )
        };
        let (common, organization) = (0x03, 0x0a);
        let names = [name(common, "system:kube-scheduler"), name(organization, "g"), name(common, "alice")];
        let subject = value(SEQUENCE, &[&names.concat()]);
        let read = Subject::from_der(&subject).unwrap();
        let request = CertificateRequest { subject, ..request() };
        let authority = Authority::new(&Env::seeded(1)).unwrap();
        let hour = Duration::from_secs(3600);
        let text = authority.certify(&request, &["client auth"], hour, authority.now, &[1]).unwrap();
        let certificate = crate::tls::certificates(text.as_bytes()).unwrap().remove(0);
        let user = super::super::super::identity::subject(&certificate).unwrap();
        assert_eq!((user.name.as_str(), &user.groups[..1]), ("alice", &["g".to_owned()][..]));
        assert_eq!((read.common_name, read.organizations), (user.name, vec!["g".to_owned()]));
    }

    #[test]
    fn long_lives_end_early_and_never_after_the_authority() {
        let (authority, der) = signed(&["any"], Duration::from_secs(24 * 3600));
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(certificate.validity().not_after.timestamp(), authority.now.as_second() + 24 * 3600 - 300);
        assert!(certificate.key_usage().unwrap().is_none());
        assert!(certificate.extended_key_usage().unwrap().unwrap().value.any);
        let (authority, der) = signed(&["decipher only"], Duration::MAX);
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let own = crate::tls::certificates(authority.certificate().as_bytes()).unwrap().remove(0);
        let (_, own) = X509Certificate::from_der(&own).unwrap();
        assert_eq!(certificate.validity().not_after, own.validity().not_after);
        assert!(certificate.key_usage().unwrap().unwrap().value.decipher_only());
    }

    #[test]
    fn a_request_with_a_wrong_signature_is_refused() {
        let mut request = request();
        let last = request.der.len() - 1;
        request.der[last] ^= 1;
        let authority = Authority::new(&Env::seeded(1)).unwrap();
        let result = authority.certify(&request, &[], Duration::ZERO, authority.now, &[1]);
        assert!(matches!(result, Err(SignError::Signature)), "{result:?}");
    }

    #[test]
    fn authorities_of_seeded_clusters_are_functions_of_the_seed() {
        let of = |seed| Authority::new(&Env::seeded(seed)).unwrap().certificate;
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
