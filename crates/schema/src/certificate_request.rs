//! Reads PKCS #10 certificate requests: the subject, the alternative names and the public key.
//!
//! Validation, admission and the signers of CertificateSigningRequests look at them. The signature is not checked here,
//! because this crate has no cryptography; who signs a certificate checks it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The type of the PEM block of a request.
const REQUEST: &str = "CERTIFICATE REQUEST";
/// Reported for anything that is not such a PEM block.
const NOT_PEM: &str = "PEM block type must be CERTIFICATE REQUEST";
/// Reported for a block whose content is not a request.
const MALFORMED: &str = "asn1: structure error: the certificate request is malformed";

// Types of DER values.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const ATTRIBUTES: u8 = 0xa0;
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

// Object identifiers, encoded.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// A certificate request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The whole request in DER.
    pub der: Vec<u8>,
    /// The subject in DER.
    pub subject: Vec<u8>,
    /// The public key with its algorithm in DER.
    pub public_key: Vec<u8>,
    /// The common name of the subject: the user. The last one counts if there are several.
    pub common_name: String,
    /// The organizations of the subject: the groups.
    pub organizations: Vec<String>,
    /// The requested DNS names.
    pub dns_names: Vec<String>,
    /// The requested email addresses.
    pub email_addresses: Vec<String>,
    /// The requested IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// The requested URIs.
    pub uris: Vec<String>,
}

impl CertificateRequest {
    /// Reads `spec.request` of a CertificateSigningRequest: base64 of a PEM block.
    ///
    /// # Errors
    /// Says in Kubernetes' words why it is not a request.
    pub fn from_field(encoded: &str) -> Result<Self, &'static str> {
        let decoded = STANDARD.decode(encoded).map_err(|_| NOT_PEM)?;
        let der = pem(&String::from_utf8_lossy(&decoded)).ok_or(NOT_PEM)?;
        Self::from_der(&der).ok_or(MALFORMED)
    }

    /// Reads a request in DER; `None` if it is malformed.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let mut request = Der(Der(der).only(SEQUENCE)?);
        let mut info = Der(request.take(SEQUENCE)?);
        request.take(SEQUENCE)?;
        request.take(BIT_STRING)?;
        request.end()?;
        info.take(INTEGER)?;
        let subject = info.next().filter(|it| it.kind == SEQUENCE)?;
        let public_key = info.next().filter(|it| it.kind == SEQUENCE)?;
        let mut read = Self {
            der: der.to_owned(),
            subject: subject.whole.to_owned(),
            public_key: public_key.whole.to_owned(),
            ..Self::default()
        };
        read.read_subject(subject.content)?;
        if !info.0.is_empty() {
            read.read_attributes(info.take(ATTRIBUTES)?)?;
        }
        info.end()?;
        Some(read)
    }

    fn read_subject(&mut self, content: &[u8]) -> Option<()> {
        for part in Der(content).all()? {
            for attribute in Der(part.of(SET)?).all()? {
                let mut attribute = Der(attribute.of(SEQUENCE)?);
                let name = attribute.take(OID)?;
                let text = String::from_utf8_lossy(attribute.next()?.content).into_owned();
                match name {
                    COMMON_NAME => self.common_name = text,
                    ORGANIZATION => self.organizations.push(text),
                    _ => {}
                }
            }
        }
        Some(())
    }

    fn read_attributes(&mut self, content: &[u8]) -> Option<()> {
        for attribute in Der(content).all()? {
            let mut attribute = Der(attribute.of(SEQUENCE)?);
            if attribute.take(OID)? != EXTENSION_REQUEST {
                continue;
            }
            let extensions = Der(attribute.take(SET)?).take(SEQUENCE)?;
            for extension in Der(extensions).all()? {
                let mut extension = Der(extension.of(SEQUENCE)?);
                let name = extension.take(OID)?;
                // Before the value, there may be a flag.
                let value = extension.all()?.pop()?.of(OCTET_STRING)?;
                if name == SUBJECT_ALTERNATIVE_NAME {
                    self.read_alternative_names(Der(value).only(SEQUENCE)?)?;
                }
            }
        }
        Some(())
    }

    fn read_alternative_names(&mut self, content: &[u8]) -> Option<()> {
        for name in Der(content).all()? {
            let text = || name.content.is_ascii().then(|| String::from_utf8_lossy(name.content).into_owned());
            match name.kind {
                EMAIL => self.email_addresses.push(text()?),
                DNS => self.dns_names.push(text()?),
                URI => self.uris.push(text()?),
                IP => self.ip_addresses.push(address(name.content)?),
                _ => {}
            }
        }
        Some(())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| Ipv4Addr::from(it).into());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|it| Ipv6Addr::from(it).into())).ok()
}

/// Returns the content of the first PEM block of a text if it is a request. Headers of the block are skipped, and so is a
/// block whose content is not base64.
fn pem(text: &str) -> Option<Vec<u8>> {
    let mut rest = text;
    loop {
        let (_, after) = rest.split_once("-----BEGIN ")?;
        let (kind, body) = after.split_once("-----")?;
        let end = format!("-----END {kind}-----");
        let Some((body, after)) = body.split_once(&end) else {
            rest = body;
            continue;
        };
        let lines: String =
            body.lines().filter(|line| !line.contains(':')).flat_map(str::split_whitespace).collect();
        match STANDARD.decode(&lines) {
            Ok(content) => return (kind == REQUEST).then_some(content),
            Err(_) => rest = after,
        }
    }
}

/// Reads one DER value after the other.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

/// A DER value.
#[derive(Clone, Copy)]
struct Element<'a> {
    kind: u8,
    content: &'a [u8],
    /// The value with its type and length.
    whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// The content if the value has this type.
    fn of(self, kind: u8) -> Option<&'a [u8]> {
        (self.kind == kind).then_some(self.content)
    }
}

impl<'a> Der<'a> {
    /// Reads the next value.
    fn next(&mut self) -> Option<Element<'a>> {
        let bytes = self.0;
        let (&kind, rest) = bytes.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No request has a length of more than four bytes.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (
                    digits
                        .iter()
                        .try_fold(0_usize, |sum, it| sum.checked_mul(256)?.checked_add((*it).into()))?,
                    rest,
                )
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some(Element { kind, content, whole: &bytes[..bytes.len() - after.len()] })
    }

    /// Reads the next value, which must have this type, and returns its content.
    fn take(&mut self, kind: u8) -> Option<&'a [u8]> {
        self.next()?.of(kind)
    }

    /// Reads a value of this type after which nothing may follow, and returns its content.
    fn only(mut self, kind: u8) -> Option<&'a [u8]> {
        let content = self.take(kind)?;
        self.end()?;
        Some(content)
    }

    /// Succeeds if nothing follows.
    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// Reads all values.
    fn all(mut self) -> Option<Vec<Element<'a>>> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push(self.next()?);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request by `openssl req -new -newkey ed25519 -subj /O=a/O=b/CN=u` with
    /// `subjectAltName=DNS:x.example,IP:10.0.0.1,IP:fe80::1,email:a@b,URI:urn:x`.
    const RICH: &str = include_str!("certificate_request/rich.pem");

    #[test]
    fn subject_and_names_are_read() {
        let request = CertificateRequest::from_field(&STANDARD.encode(RICH)).unwrap();
        assert_eq!(request.common_name, "u");
        assert_eq!(request.organizations, ["a", "b"]);
        assert_eq!(request.dns_names, ["x.example"]);
        assert_eq!(request.ip_addresses, ["10.0.0.1".parse::<IpAddr>().unwrap(), "fe80::1".parse().unwrap()]);
        assert_eq!(request.email_addresses, ["a@b"]);
        assert_eq!(request.uris, ["urn:x"]);
        assert_eq!((request.subject[0], request.public_key.len()), (SEQUENCE, 44));
    }

    #[test]
    fn every_shortened_or_changed_request_is_read_or_refused() {
        let request = CertificateRequest::from_field(&STANDARD.encode(RICH)).unwrap();
        for length in 0..request.der.len() {
            assert_eq!(CertificateRequest::from_der(&request.der[..length]), None, "{length}");
        }
        for at in 0..request.der.len() {
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = request.der.clone();
                changed[at] = value;
                let _ = CertificateRequest::from_der(&changed);
            }
        }
    }

    #[test]
    fn other_blocks_are_no_requests() {
        let refused = |text: &str| CertificateRequest::from_field(&STANDARD.encode(text)).unwrap_err();
        assert_eq!(refused(""), NOT_PEM);
        assert_eq!(refused(&RICH.replace("CERTIFICATE REQUEST", "CERTIFICATE")), NOT_PEM);
        assert_eq!(refused(RICH.trim_end().trim_end_matches('-')), NOT_PEM);
        assert_eq!(
            refused("-----BEGIN CERTIFICATE REQUEST-----\nYQ==\n-----END CERTIFICATE REQUEST-----"),
            MALFORMED
        );
        assert_eq!(CertificateRequest::from_field("not base64"), Err(NOT_PEM));
        let second = format!("-----BEGIN X-----\n!\n-----END X-----\n{RICH}");
        assert!(
            CertificateRequest::from_field(&STANDARD.encode(second)).is_ok(),
            "a broken block is skipped"
        );
    }
}
