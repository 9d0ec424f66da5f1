//! The contents of the Secret, and how they change.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use crate::tls::{self, CertificateError, Facts, Identity};

/// The keys of the Secret's data. The first three are those of cert-manager's Secrets.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next-tls.crt";
const NEXT_KEY: &str = "next-tls.key";
const NEXT_CA: &str = "next-ca.crt";
const RETIRED_CAS: &str = "retired-ca.crt";

/// The annotation with the time since which every configuration trusts the next certificate.
const PUBLISHED: &str = "webhooks.evenkeel.dev/published";

/// A private key in PEM. It is written only to the Secret, and given only to TLS.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(pem: String) -> Self {
        Self(pem)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// A serving certificate with its key, and the CA that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) ca: String,
    pub(super) certificate: String,
    pub(super) key: Key,
    /// What the certificate states about itself.
    pub(super) facts: Facts,
}

impl Pair {
    fn read(certificate: Option<&str>, key: Option<&str>, ca: Option<&str>) -> Option<Self> {
        let (certificate, key, ca) = (certificate?, key?, ca?);
        // A CA that cannot be parsed would make the whole bundle invalid, and a key that does not fit would make the
        // pair useless.
        Facts::of_pem(ca.as_bytes()).ok()?;
        Identity::from_pem(certificate.as_bytes(), key.as_bytes()).ok()?;
        let facts = Facts::of_pem(certificate.as_bytes()).ok()?;
        Some(Self { ca: ca.into(), certificate: certificate.into(), key: Key(key.into()), facts })
    }

    pub(super) fn identity(&self) -> Result<Identity, CertificateError> {
        Identity::from_pem(self.certificate.as_bytes(), self.key.0.as_bytes())
    }
}

/// A certificate that will become the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) pair: Pair,
    /// The time since which every configuration trusts the certificate.
    pub(super) published: Option<Timestamp>,
}

/// The CA of a former current certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    pub(super) ca: String,
    /// The expiry of the CA and of the certificate that it signed.
    pub(super) until: Timestamp,
}

/// The contents of the Secret. Unreadable parts count as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The certificate that replicas serve with.
    pub(super) current: Option<Pair>,
    pub(super) next: Option<Next>,
    pub(super) retired: Vec<Retired>,
}

impl State {
    pub(super) fn read(secret: &Secret) -> Self {
        let text = |key: &str| {
            let ByteString(bytes) = secret.data.as_ref()?.get(key)?;
            std::str::from_utf8(bytes).ok()
        };
        let published = secret.metadata.annotations.as_ref().and_then(|all| all.get(PUBLISHED)?.parse().ok());
        let next = Pair::read(text(NEXT_CERTIFICATE), text(NEXT_KEY), text(NEXT_CA));
        Self {
            current: Pair::read(text(CERTIFICATE), text(KEY), text(CA)),
            next: next.map(|pair| Next { pair, published }),
            retired: text(RETIRED_CAS).map(retired).unwrap_or_default(),
        }
    }

    /// Writes the contents into the Secret. Data under other keys is kept.
    pub(super) fn write(&self, secret: &mut Secret) {
        let data = secret.data.get_or_insert_default();
        let next = self.next.as_ref().map(|next| &next.pair);
        put(data, [CERTIFICATE, KEY, CA], self.current.as_ref());
        put(data, [NEXT_CERTIFICATE, NEXT_KEY, NEXT_CA], next);
        let retired: String = self.retired.iter().map(|retired| retired.ca.as_str()).collect();
        set(data, RETIRED_CAS, (!retired.is_empty()).then_some(retired.as_str()));
        let annotations = secret.metadata.annotations.get_or_insert_default();
        match self.next.as_ref().and_then(|next| next.published) {
            Some(at) => drop(annotations.insert(PUBLISHED.into(), at.to_string())),
            None => drop(annotations.remove(PUBLISHED)),
        }
    }

    /// Whether the Secret has no certificate, neither a current nor a next one.
    pub(super) fn is_blank(&self) -> bool {
        self.current.is_none() && self.next.is_none()
    }

    /// Returns the CAs that the API server must trust, in PEM. Their order does not change when a certificate is promoted:
    /// each change of a bundle makes the API servers open new connections.
    pub(super) fn bundle(&self) -> String {
        let retired = self.retired.iter().map(|retired| retired.ca.as_str());
        let current = self.current.iter().map(|pair| pair.ca.as_str());
        let next = self.next.iter().map(|next| next.pair.ca.as_str());
        retired.chain(current).chain(next).collect()
    }

    /// Whether the CA is one of those that the API server must trust.
    pub(super) fn knows(&self, ca: &str) -> bool {
        let pairs = self.current.iter().chain(self.next.iter().map(|next| &next.pair));
        pairs
            .map(|pair| &pair.ca)
            .chain(self.retired.iter().map(|retired| &retired.ca))
            .any(|known| known == ca)
    }

    /// Makes `own` the current certificate, in place of one that somebody else put into the Secret and that no
    /// configuration trusts yet. That one becomes the next one if it is valid for longer.
    pub(super) fn reinstated(mut self, own: Pair) -> Self {
        let until = own.facts.until;
        let Some(found) = self.current.replace(own) else { return self };
        if self.next.is_none() && found.facts.until > until {
            return self.with_next(found);
        }
        // Other replicas may serve with it.
        self.retired.push(Retired { ca: found.ca, until: found.facts.until });
        self
    }

    pub(super) fn with_next(mut self, pair: Pair) -> Self {
        self.next = Some(Next { pair, published: None });
        self
    }

    /// Records that every configuration trusts the next certificate from now on.
    pub(super) fn published(mut self, now: Timestamp) -> Self {
        if let Some(next) = &mut self.next {
            next.published = Some(now);
        }
        self
    }

    /// Makes the next certificate the current one.
    pub(super) fn promoted(mut self, now: Timestamp) -> Self {
        if let Some(next) = self.next.take() {
            let old = self.current.replace(next.pair);
            self.retired.extend(old.map(|pair| Retired { ca: pair.ca, until: pair.facts.until }));
        }
        self.without_expired(now)
    }

    /// Removes the CAs whose certificates have expired.
    pub(super) fn without_expired(mut self, now: Timestamp) -> Self {
        self.retired.retain(|retired| now < retired.until);
        self
    }
}

fn put(data: &mut BTreeMap<String, ByteString>, keys: [&str; 3], pair: Option<&Pair>) {
    let values = pair.map(|pair| [&pair.certificate, &pair.key.0, &pair.ca]);
    for (at, key) in keys.into_iter().enumerate() {
        set(data, key, values.map(|values| values[at].as_str()));
    }
}

fn set(data: &mut BTreeMap<String, ByteString>, key: &str, value: Option<&str>) {
    match value {
        Some(value) => drop(data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()))),
        None => drop(data.remove(key)),
    }
}

/// Reads the CAs in a PEM text, each with its expiry.
fn retired(text: &str) -> Vec<Retired> {
    const END: &str = "-----END CERTIFICATE-----";
    let one = |pem: &str| {
        let ca = format!("{}\n", pem.trim());
        let facts = tls::Facts::of_pem(ca.as_bytes()).ok()?;
        Some(Retired { ca, until: facts.until })
    };
    text.split_inclusive(END).filter_map(one).collect()
}
