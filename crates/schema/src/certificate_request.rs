//! Reads PKCS #10 certificate requests: the subject, the alternative names and the public key.
//!
//! Validation, admission and the signers of CertificateSigningRequests look at them. The signature is not checked here,
//! because this crate has no cryptography; who signs a certificate checks it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The type of the PEM block of a request.
const REQUEST: &str = "CERTIFICATE REQUEST";
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";
const PEM_DASHES: &str = "-----";
/// Reported for anything that is not such a PEM block.
const NOT_PEM: &str = "PEM block type must be CERTIFICATE REQUEST";
/// Reported for a block whose content is not a request.
const MALFORMED: &str = "asn1: structure error: the certificate request is malformed";

// Types of DER values.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const NUMERIC_STRING: u8 = 0x12;
const PRINTABLE_STRING: u8 = 0x13;
const T61_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const ATTRIBUTES: u8 = 0xa0;
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;
/// The bits of a type that say that its number follows in further bytes.
const LONG_TYPE: u8 = 0x1f;

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

/// Whom a certificate or a request names.
///
/// Admission, the signers and the authentication of clients read subjects with this type alone: two readers that differ in a
/// detail would sign a certificate for one user that is taken for another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The common name: the user. The last one counts if there are several.
    pub common_name: String,
    /// The organizations: the groups.
    pub organizations: Vec<String>,
}

impl Subject {
    /// Reads a subject in DER; `None` if it is malformed. As in Go, values that are not text are skipped.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let mut subject = Self::default();
        for part in Der(Der(der).only(SEQUENCE)?).all()? {
            for attribute in Der(part.of(SET)?).all()? {
                let mut attribute = Der(attribute.of(SEQUENCE)?);
                let (name, value) = (attribute.take(OID)?, attribute.next()?);
                attribute.end()?;
                let Some(text) = value.text() else { continue };
                match name {
                    COMMON_NAME => subject.common_name = text?,
                    ORGANIZATION => subject.organizations.push(text?),
                    _ => {}
                }
            }
        }
        Some(subject)
    }
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
        let Subject { common_name, organizations } = Subject::from_der(subject.whole)?;
        let mut read = Self {
            der: der.to_owned(),
            subject: subject.whole.to_owned(),
            public_key: public_key.whole.to_owned(),
            common_name,
            organizations,
            ..Self::default()
        };
        if !info.0.is_empty() {
            read.read_attributes(info.take(ATTRIBUTES)?)?;
        }
        info.end()?;
        Some(read)
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
    let ends = ends_of_blocks(text);
    let mut at = 0;
    loop {
        let begin = at + text[at..].find(PEM_BEGIN)? + PEM_BEGIN.len();
        let (kind, _) = text[begin..].split_once(PEM_DASHES)?;
        let body = begin + kind.len() + PEM_DASHES.len();
        let of_kind = ends.get(kind).map(Vec::as_slice).unwrap_or_default();
        let Some(end) = of_kind.get(of_kind.partition_point(|end| *end < body)) else {
            at = body;
            continue;
        };
        let lines = text[body..*end].lines().filter(|line| !line.contains(':'));
        match STANDARD.decode(lines.flat_map(str::split_whitespace).collect::<String>()) {
            Ok(content) => return (kind == REQUEST).then_some(content),
            Err(_) => at = *end,
        }
    }
}

/// Returns where the blocks of each kind end. One search suffices even if the text has many beginnings.
fn ends_of_blocks(text: &str) -> BTreeMap<&str, Vec<usize>> {
    let mut ends: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, mark) in text.match_indices(PEM_END) {
        if let Some((kind, _)) = text[at + mark.len()..].split_once(PEM_DASHES) {
            ends.entry(kind).or_default().push(at);
        }
    }
    ends
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

    /// The text of a value that is one; the inner `None` is a malformed text.
    fn text(self) -> Option<Option<String>> {
        let bytes = self.content;
        match self.kind {
            UTF8_STRING | NUMERIC_STRING | PRINTABLE_STRING | IA5_STRING => {
                Some(String::from_utf8(bytes.to_owned()).ok())
            }
            T61_STRING => Some(Some(bytes.iter().map(|byte| char::from(*byte)).collect())),
            BMP_STRING => {
                let (pairs, rest) = bytes.as_chunks();
                let text =
                    String::from_utf16(&pairs.iter().map(|it| u16::from_be_bytes(*it)).collect::<Vec<_>>());
                Some(text.ok().filter(|_| rest.is_empty()))
            }
            _ => None,
        }
    }
}

impl<'a> Der<'a> {
    /// Reads the next value.
    fn next(&mut self) -> Option<Element<'a>> {
        let bytes = self.0;
        let (&kind, rest) = bytes.split_first().filter(|(kind, _)| **kind & LONG_TYPE != LONG_TYPE)?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No length in a request needs more than four bytes.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = digits
                    .iter()
                    .try_fold(0_usize, |sum, it| sum.checked_mul(256)?.checked_add((*it).into()))?;
                // DER allows only one encoding of a length.
                let is_shortest = digits.first() != Some(&0) && length > 0x7f;
                (is_shortest.then_some(length)?, rest)
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

    /// A DER value of less than 128 bytes.
    fn der(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        [&[kind, content.len() as u8], &*content].concat()
    }

    fn subject_of(attributes: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
        let attribute = |(name, kind, text): &(&[u8], u8, &[u8])| {
            der(SET, &[&der(SEQUENCE, &[&der(OID, &[name]), &der(*kind, &[text])])])
        };
        der(SEQUENCE, &[&attributes.iter().flat_map(attribute).collect::<Vec<_>>()])
    }

    #[test]
    fn a_subject_is_read_as_go_reads_it() {
        let read = |attributes: &[(&[u8], u8, &[u8])]| {
            let subject = Subject::from_der(&subject_of(attributes))?;
            Some((subject.common_name, subject.organizations.join(",")))
        };
        let is = |name: &str, groups: &str| Some((name.to_owned(), groups.to_owned()));
        let twice: [(&[u8], u8, &[u8]); 3] = [
            (COMMON_NAME, UTF8_STRING, b"a"),
            (ORGANIZATION, PRINTABLE_STRING, b"g"),
            (COMMON_NAME, IA5_STRING, b"b"),
        ];
        assert_eq!(read(&twice), is("b", "g"));
        assert_eq!(read(&[(COMMON_NAME, BMP_STRING, b"\0a\x20\xac")]), is("a\u{20ac}", ""));
        assert_eq!(read(&[(COMMON_NAME, T61_STRING, b"\xe4")]), is("\u{e4}", ""));
        assert_eq!(read(&[(COMMON_NAME, UTF8_STRING, b"a"), (COMMON_NAME, OCTET_STRING, b"b")]), is("a", ""));
        for (kind, malformed) in [(UTF8_STRING, &b"\xff"[..]), (BMP_STRING, b"\0aa"), (BMP_STRING, b"\xd8\0")]
        {
            assert_eq!(read(&[(COMMON_NAME, kind, malformed)]), None);
        }
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_refused() {
        let attribute = |value: &[u8]| {
            der(SEQUENCE, &[&der(SET, &[&der(SEQUENCE, &[&der(OID, &[ORGANIZATION]), value])])])
        };
        let good = der(UTF8_STRING, &[b"group"]);
        assert_eq!(Subject::from_der(&attribute(&good)).unwrap().organizations, ["group"]);
        for (why, value) in [
            ("something follows the value", [&good[..], &good].concat()),
            ("the type is written in two bytes", [&[LONG_TYPE], &good[..]].concat()),
            ("the length is not the shortest", b"\x0c\x81\x05group".to_vec()),
            ("the length begins with a zero", b"\x0c\x82\x00\x05group".to_vec()),
            ("the length is open", b"\x0c\x80group\0\0".to_vec()),
        ] {
            assert_eq!(Subject::from_der(&attribute(&value)), None, "{why}");
        }
    }

    /// A search for the end of each block through the rest of the text would take hours for this.
    #[test]
    fn a_block_of_beginnings_is_searched_once() {
        let many = "-----BEGIN X-----".repeat(100_000);
        assert_eq!(CertificateRequest::from_field(&STANDARD.encode(&many)), Err(NOT_PEM));
        let with_end = format!("{many}-----END X-----\n{RICH}");
        assert!(CertificateRequest::from_field(&STANDARD.encode(with_end)).is_ok());
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
