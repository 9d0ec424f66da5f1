//! The certificate authority of a cluster. It signs the certificates of the server and of the administrator, and those
//! for CertificateSigningRequests.

mod sign;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use evenkeel_apiserver::SigningKey;
use evenkeel_env::Env;
use jiff::{Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::private_file::{create_folder, write_private};

pub(crate) use sign::ClusterSigner;

/// How long certificates are valid. The authority belongs to one developer or one test machine, and nobody renews its
/// certificates.
const VALID_YEARS: i64 = 10;
/// The names by which clients know a Kubernetes API server.
const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// The address of the Service `default/kubernetes`.
const SERVICE_IP: &str = "10.96.0.1";
/// The beginning of a PKCS #8 document with an Ed25519 key. The key's 32 bytes follow.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A certificate or key could not be created or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A file could not be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The files hold no certificate authority or key that evenkeel has created.
    #[error("{path} does not hold a certificate authority or key that evenkeel has created")]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: rcgen::Error,
    },
    /// A certificate could not be created.
    #[error("cannot create a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// A certificate with its key, both in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    now: Timestamp,
}

impl Authority {
    /// Creates an authority that is not stored anywhere.
    ///
    /// The key of a cluster with a seed is a function of the seed, and so are its signatures.
    pub(crate) fn new(env: &Env) -> Result<Self, AuthorityError> {
        let now = env.now();
        let key = if env.seed().is_some() { seeded_key(env)? } else { KeyPair::generate()? };
        let mut params = params(&[], "evenkeel-ca", now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key), now })
    }

    /// Reads the authority from this folder, or creates it there, so that kubeconfigs stay valid after a restart.
    pub(crate) fn open(folder: &Path, env: &Env) -> Result<Self, AuthorityError> {
        let (certificate_file, key_file) = (folder.join("ca.crt"), folder.join("ca.key"));
        if !certificate_file.exists() {
            let new = Self::new(env)?;
            create_folder(folder).map_err(at(folder))?;
            // The certificate is written last: if it exists, so does its key.
            write_private(&key_file, &new.issuer.key().serialize_pem()).map_err(at(&key_file))?;
            write_private(&certificate_file, &new.certificate).map_err(at(&certificate_file))?;
            return Ok(new);
        }
        let certificate = fs::read_to_string(&certificate_file).map_err(at(&certificate_file))?;
        let key = fs::read_to_string(&key_file).map_err(at(&key_file))?;
        let damaged = |source| AuthorityError::Damaged { path: folder.to_owned(), source };
        let key = KeyPair::from_pem(&key).map_err(damaged)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(damaged)?;
        Ok(Self { certificate, issuer, now: env.now() })
    }

    /// The authority's own certificate in PEM, which clients trust.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for the server at these addresses.
    pub(crate) fn server(&self, addresses: &[IpAddr]) -> Result<Pair, AuthorityError> {
        let mut names: Vec<String> = SERVER_NAMES.map(str::to_owned).to_vec();
        names.extend(["127.0.0.1", "::1", SERVICE_IP].map(str::to_owned));
        names.extend(addresses.iter().filter(|ip| !ip.is_unspecified()).map(ToString::to_string));
        let params = params(&names, "kube-apiserver", self.now)?;
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a user in a group.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<Pair, AuthorityError> {
        let mut params = params(&[], user, self.now)?;
        params.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Pair, AuthorityError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

/// Makes an Ed25519 key of the randomness of a seeded environment. Its signatures are functions of what is signed.
fn seeded_key(env: &Env) -> Result<KeyPair, rcgen::Error> {
    let mut pkcs8 = ED25519_PKCS8.to_vec();
    let mut seed = [0; 32];
    env.fill(&mut seed);
    pkcs8.extend(seed);
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8), &rcgen::PKCS_ED25519)
}

/// Reads the key that signs service account tokens from this folder, or creates it there, so that tokens stay valid
/// after a restart.
pub(crate) fn signing_key(folder: &Path) -> Result<SigningKey, AuthorityError> {
    let file = folder.join("sa.key");
    if !file.exists() {
        let new = KeyPair::generate()?;
        create_folder(folder).map_err(at(folder))?;
        write_private(&file, &new.serialize_pem()).map_err(at(&file))?;
    }
    let text = fs::read_to_string(&file).map_err(at(&file))?;
    let damaged = |source| AuthorityError::Damaged { path: file.clone(), source };
    let pair = KeyPair::from_pem(&text).map_err(damaged)?;
    SigningKey::from_pkcs8(&pair.serialize_der()).map_err(|_| damaged(rcgen::Error::CouldNotParseKeyPair))
}

fn params(names: &[String], common_name: &str, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let today = now.to_zoned(TimeZone::UTC).date();
    // A day early, for clients whose clocks are behind.
    let from = today.checked_sub(Span::new().days(1)).unwrap_or(today);
    let until = today.checked_add(Span::new().years(VALID_YEARS)).unwrap_or(today);
    let date = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = date(from);
    params.not_after = date(until);
    Ok(params)
}

fn at(path: &Path) -> impl Fn(io::Error) -> AuthorityError + '_ {
    move |source| AuthorityError::File { path: path.to_owned(), source }
}
