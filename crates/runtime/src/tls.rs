//! TLS for the servers of an operator: the certificate that a server presents, how it is made or read, and connections.

mod connection;
mod folder;
mod issue;
mod peers;

use std::fmt;
use std::sync::{Arc, LazyLock};

use evenkeel_env::Env;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

#[cfg(feature = "secured-server")]
pub(crate) use connection::Content;
pub(crate) use connection::serve;
pub(crate) use folder::keep as keep_folder;
pub(crate) use issue::{Validity, issue};

/// The protocols that the server offers, in order of preference. kube-apiserver takes the first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why a certificate and its key cannot be used. No variant contains the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// A certificate or key is not PEM.
    #[error("the {0} is not PEM: {1}")]
    NotPem(&'static str, pem::Error),
    /// There is no certificate.
    #[error("there is no certificate")]
    Missing,
    /// The certificate cannot be parsed.
    #[error("the certificate cannot be parsed: {0}")]
    Unparsable(String),
    /// The key does not belong to the certificate, or is of an unsupported type.
    #[error("the key does not fit the certificate: {0}")]
    Unfit(rustls::Error),
}

/// What a certificate states about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The DNS names and IP addresses.
    pub(crate) names: Vec<String>,
}

impl Facts {
    /// Reads the first certificate of a PEM text.
    pub(crate) fn of_pem(text: &[u8]) -> Result<Self, CertificateError> {
        Self::of(certificates(text)?.first().ok_or(CertificateError::Missing)?)
    }

    fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let unparsable = |error: String| CertificateError::Unparsable(error);
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| unparsable(error.to_string()))?;
        let time = |seconds: i64| {
            Timestamp::from_second(seconds).map_err(|error| CertificateError::Unparsable(error.to_string()))
        };
        let validity = parsed.validity();
        let (from, until) = (time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?);
        let names = parsed.subject_alternative_name().map_err(|error| unparsable(error.to_string()))?;
        let names = names.iter().flat_map(|extension| &extension.value.general_names).filter_map(name_of);
        Ok(Self { from, until, names: names.collect() })
    }

    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            &[a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            bytes => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        },
        _ => None,
    }
}

/// A certificate with its key, ready for TLS handshakes.
pub(crate) struct Identity {
    key: Arc<CertifiedKey>,
    facts: Facts,
}

impl Identity {
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = certificates(certificate)?;
        let facts = Facts::of(chain.first().ok_or(CertificateError::Missing)?)?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::NotPem("key", error))?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Unfit)?;
        Ok(Self { key: Arc::new(key), facts })
    }
}

/// Reads the certificates in a PEM text.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found: Result<_, _> = CertificateDer::pem_slice_iter(text).collect();
    found.map_err(|error| CertificateError::NotPem("certificate", error))
}

/// The certificate that a server presents. Clones share it, and it can be replaced while the server runs.
#[derive(Clone, Default)]
pub(crate) struct Shown {
    inner: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    identity: Option<Arc<Identity>>,
    /// Why there is no newer certificate.
    problem: Option<String>,
}

impl Shown {
    /// Presents this certificate from now on.
    pub(crate) fn show(&self, identity: Identity) {
        *self.inner.lock() = Held { identity: Some(Arc::new(identity)), problem: None };
    }

    /// Records why there is no newer certificate, or `None` if nothing is wrong.
    pub(crate) fn note(&self, problem: Option<String>) {
        self.inner.lock().problem = problem;
    }

    fn valid(&self, now: Timestamp) -> Option<Arc<Identity>> {
        self.inner.lock().identity.clone().filter(|identity| identity.facts.is_valid(now))
    }

    /// Returns the certificate chain that clients see at this time. An expired certificate is not presented.
    pub(crate) fn chain(&self, now: Timestamp) -> Option<Vec<CertificateDer<'static>>> {
        self.valid(now).map(|identity| identity.key.cert.clone())
    }

    /// The expiry of the presented certificate, in seconds since 1970.
    pub(crate) fn until(&self) -> Option<i64> {
        self.inner.lock().identity.as_ref().map(|identity| identity.facts.until.as_second())
    }

    /// Checks whether a valid certificate is presented. The error says why not.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), String> {
        let held = self.inner.lock();
        match &held.identity {
            Some(identity) if identity.facts.is_valid(now) => Ok(()),
            _ if held.problem.is_some() => Err(held.problem.clone().unwrap_or_default()),
            Some(identity) => {
                let Facts { from, until, .. } = &identity.facts;
                Err(format!("the certificate is valid from {from} until {until}, and it is {now}"))
            }
            None => Err("there is no certificate yet".to_owned()),
        }
    }

    /// Returns the TLS configuration of a server that presents this certificate.
    pub(crate) fn server_config(&self, env: Env) -> Result<Arc<ServerConfig>, rustls::Error> {
        let resolver = Arc::new(Resolver { shown: self.clone(), env });
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

/// Chooses the certificate for a handshake.
struct Resolver {
    shown: Shown,
    env: Env,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shown.valid(self.env.now()).map(|identity| identity.key.clone())
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// The implementation of the cryptographic algorithms. One value serves the whole process.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    PROVIDER.clone()
}
