//! The set-up of TLS that the server and the webhook client share.

use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};

/// The protocols that the server offers, in the order of preference.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The implementation of the cryptographic algorithms.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    PROVIDER.clone()
}

/// The certificates in a PEM text.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(text).collect()
}

/// A store of CA certificates. Certificates that cannot be parsed are left out.
pub(crate) fn roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    Arc::new(roots)
}

/// The configuration of a client without a certificate, which verifies the server's certificate with `verifier`.
pub(crate) fn client_config(verifier: Arc<dyn ServerCertVerifier>) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Accepts every certificate, as kube-apiserver's proxies to pods and Services do. The signatures of the handshake are
/// verified.
pub(crate) fn any_certificate() -> Arc<dyn ServerCertVerifier> {
    Arc::new(AnyCertificate)
}

#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The configuration of a server with this certificate and key in PEM, which verifies client certificates with
/// `verifier`.
pub(crate) fn server_config(
    certificate: &str,
    key: &str,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, Error> {
    let chain = certificates(certificate.as_bytes()).map_err(not_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(not_pem)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// The error for a certificate or key of the cluster itself that is not PEM.
pub(crate) fn not_pem(error: pem::Error) -> Error {
    Error::General(format!("the cluster's own certificate or key is not PEM: {error}"))
}
