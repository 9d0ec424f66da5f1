//! Verification of webhooks' TLS certificates.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};

use crate::tls;

/// Accepts certificates that an authority in the bundle has signed, and the certificates in the bundle themselves.
/// Webhooks with a self-signed certificate are common, and Go accepts them.
#[derive(Debug)]
pub(super) struct Trust {
    /// `None` if the bundle has no authority.
    signed: Option<Arc<WebPkiServerVerifier>>,
    known: Vec<CertificateDer<'static>>,
    schemes: Vec<SignatureScheme>,
}

impl Trust {
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        known: Vec<CertificateDer<'static>>,
    ) -> Result<Self, String> {
        let provider = tls::provider();
        let schemes = provider.signature_verification_algorithms.supported_schemes();
        let signed = match roots.is_empty() {
            true => None,
            false => Some(
                WebPkiServerVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| error.to_string())?,
            ),
        };
        Ok(Self { signed, known, schemes })
    }

    /// Whether a certificate is in the bundle, and valid for this name at this time.
    fn is_known(
        &self,
        shown: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<bool, Error> {
        if !self.known.iter().any(|it| it.as_ref() == shown.as_ref()) {
            return Ok(false);
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        let (_, certificate) =
            X509Certificate::from_der(shown).map_err(|_| Error::from(CertificateError::BadEncoding))?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let time = ASN1Time::from_timestamp(seconds).map_err(|_| Error::from(CertificateError::Expired))?;
        match certificate.validity().is_valid_at(time) {
            true => Ok(true),
            false => Err(CertificateError::Expired.into()),
        }
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.is_known(shown, name, now)? {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.signed {
            Some(signed) => signed.verify_server_cert(shown, others, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = tls::provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = tls::provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

/// The error of a failed TLS handshake, worded as in Go where Go's words are known.
pub(super) fn handshake_error(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(why)) => {
            let why = match why {
                // `Other` is a CA certificate used as a server certificate, which is not in the bundle.
                CertificateError::UnknownIssuer | CertificateError::Other(_) => {
                    "x509: certificate signed by unknown authority".to_owned()
                }
                other => other.to_string(),
            };
            format!("tls: failed to verify certificate: {why}")
        }
        Some(other) => format!("tls: {other}"),
        None => error.to_string(),
    }
}
