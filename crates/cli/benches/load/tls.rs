//! TLS configurations of clients, shared by the benches.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel::kube::config::Kubeconfig;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use secrecy::ExposeSecret as _;

/// A client that trusts the server of this kubeconfig, with the client certificate of its user.
pub(crate) fn admin(kubeconfig: &Kubeconfig) -> ClientConfig {
    let user = kubeconfig.auth_infos[0].auth_info.as_ref().expect("the kubeconfig has a user");
    let certificate = decode(user.client_certificate_data.as_deref().expect("the user has a certificate"));
    let key = decode(user.client_key_data.as_ref().expect("the user has a key").expose_secret());
    let certificate = CertificateDer::from_pem_slice(&certificate).expect("the certificate is PEM");
    let key = PrivateKeyDer::from_pem_slice(&key).expect("the key is PEM");
    let config = trusting(&authority(kubeconfig));
    config.with_client_auth_cert(vec![certificate], key).expect("the key belongs to the certificate")
}

/// The CA certificate of the server, in PEM.
pub(crate) fn authority(kubeconfig: &Kubeconfig) -> Vec<u8> {
    let cluster = kubeconfig.clusters[0].cluster.as_ref().expect("the kubeconfig has a cluster");
    decode(cluster.certificate_authority_data.as_deref().expect("the cluster has a CA certificate"))
}

/// A client that trusts this CA certificate in PEM.
pub(crate) fn trusting(authority: &[u8]) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority).expect("the CA certificate is PEM");
    roots.add(authority).expect("the CA certificate is valid");
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
        .with_root_certificates(roots)
}

fn decode(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("the kubeconfig holds base64")
}
