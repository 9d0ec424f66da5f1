//! The TLS configuration of the server, and the verification of client certificates.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};

use super::authority::Pair;
use super::identity::{Certificate, subject};

/// Accepts any client certificate in the handshake, if the client has its key. The certificate is verified afterwards,
/// so that a wrong one leads to status 401 and not to a failed handshake, as with kube-apiserver.
#[derive(Debug)]
struct AnyCertificate {
    strict: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

/// The server side of TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    strict: Arc<dyn ClientCertVerifier>,
    env: Env,
}

impl Tls {
    pub(crate) fn new(authority: &str, server: &Pair, env: Env) -> Result<Self, Error> {
        let pem = |_| Error::General("a certificate of ours is no PEM".to_owned());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).map_err(pem)?)?;
        let provider = Arc::new(ring::default_provider());
        let strict = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let chain = vec![CertificateDer::from_pem_slice(server.certificate.as_bytes()).map_err(pem)?];
        let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).map_err(pem)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(AnyCertificate { strict: strict.clone() }))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), strict, env })
    }

    /// Verifies the certificates that a client has sent.
    pub(crate) fn judge(&self, shown: Option<&[CertificateDer<'_>]>) -> Certificate {
        let Some((own, others)) = shown.and_then(<[_]>::split_first) else { return Certificate::None };
        let seconds = u64::try_from(self.env.now().as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let good = self.strict.verify_client_cert(own, others, now).is_ok();
        match good.then(|| subject(own)).flatten() {
            Some(user) => Certificate::Good(Arc::new(user)),
            None => Certificate::Bad,
        }
    }
}
