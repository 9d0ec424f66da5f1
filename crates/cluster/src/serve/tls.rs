//! The TLS configuration of the server, and the verification of client certificates.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::authority::Pair;
use super::identity::{Certificate, subject};
use crate::tls;

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
        let roots = tls::roots(tls::certificates(authority.as_bytes()).map_err(tls::not_pem)?);
        // Without a CA certificate the builder fails.
        let strict = WebPkiClientVerifier::builder_with_provider(roots, tls::provider())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let any = Arc::new(AnyCertificate { strict: strict.clone() });
        let config = tls::server_config(&server.certificate, &server.key, any)?;
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
