//! The certificates of the webhooks' server: made and renewed by the operator itself, or read from a folder.
//!
//! Without another component, the certificates are in a Secret that all replicas share. Each serving certificate is signed
//! by a CA of its own, whose key is thrown away at once: there is no key that could sign another certificate. A renewal
//! takes these steps; any replica takes any of them, and each is one write with optimistic concurrency:
//!
//! 1. The next certificate and its CA are written to the Secret.
//! 2. The CA is added to the `caBundle` of every configuration and definition. Old and new CA are trusted from now on.
//! 3. The time of that is written to the Secret. All API servers have the new bundle after [`plan::SETTLE`].
//! 4. The next certificate becomes the current one, which all replicas serve with as soon as they see it. The old CA stays
//!    in the bundle until the old certificate has expired: a replica that lost its connection to the API server may serve
//!    with it until then.
//!
//! A replica never applies an outdated bundle: it reads the configurations first, the Secret second, and applies the bundle
//! on the condition that the configuration has not changed. A configuration that trusts a CA of which the replica does not
//! know has changed since.
//!
//! *Invariant:* a certificate becomes the current one only after every configuration trusts its CA.

mod issue;
mod keeper;
mod plan;
mod state;
mod trust;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_env::Env;
use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{Endpoint, Webhooks};
use crate::error::BoxError;
use crate::tls::{self, Shown};
use keeper::Keeper;

/// The certificates that the server of the webhooks shows.
///
/// [`Manager::webhook_server`](crate::Manager::webhook_server) keeps them. Use [`Certificates::keep`] yourself only if the
/// webhooks are served by a server of your own. Clones share the certificate.
///
/// ```no_run
/// use evenkeel_runtime::webhook::{Certificates, Endpoint, Webhooks};
/// use evenkeel_runtime::{BoxError, Env};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example(client: kube::Client, webhooks: Webhooks) -> Result<(), BoxError> {
/// let certificates = Certificates::in_secret("operators", "sites-webhook-cert");
/// let endpoint = Endpoint::service("operators", "sites-webhook");
/// let stop = CancellationToken::new();
/// certificates.keep(client, Env::system(), &webhooks, "sites", &endpoint, stop).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Certificates {
    source: Source,
    shown: Shown,
}

#[derive(Clone, Debug)]
enum Source {
    Secret { namespace: Arc<str>, name: Arc<str> },
    Folder(PathBuf),
}

impl Certificates {
    /// Certificates that the replicas make themselves and share in this Secret.
    pub fn in_secret(namespace: &str, name: &str) -> Self {
        let source = Source::Secret { namespace: namespace.into(), name: name.into() };
        Self { source, shown: Shown::default() }
    }

    /// Certificates in a folder with the files `tls.crt` and `tls.key`, as cert-manager's Secrets are mounted. The files are
    /// read again when they change. Whoever makes them keeps the `caBundle` of the configurations as well.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { source: Source::Folder(folder.into()), shown: Shown::default() }
    }

    pub(crate) fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// The folder, if somebody else makes the certificates.
    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.source {
            Source::Secret { .. } => None,
            Source::Folder(folder) => Some(folder),
        }
    }

    /// The chain of certificates that clients see at this time, in DER. `None` if there is no valid one.
    pub fn chain(&self, now: Timestamp) -> Option<Vec<Vec<u8>>> {
        Some(self.shown.chain(now)?.iter().map(|certificate| certificate.to_vec()).collect())
    }

    /// Whether clients see a valid certificate at this time.
    ///
    /// # Errors
    /// The reason why there is no valid certificate.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        self.shown.check(now)
    }

    /// Makes, renews and loads the certificates, and keeps the `caBundle` current in the configurations with this name and
    /// in the definitions whose objects the webhooks convert, until `stop` is cancelled. Every replica does this.
    ///
    /// # Errors
    /// None at present: what fails is logged, shown by [`Certificates::check`], and tried again.
    pub async fn keep(
        &self,
        client: Client,
        env: Env,
        webhooks: &Webhooks,
        name: &str,
        endpoint: &Endpoint,
        stop: CancellationToken,
    ) -> Result<(), BoxError> {
        let shown = self.shown.clone();
        match &self.source {
            Source::Folder(folder) => tls::keep_folder(folder.clone(), "webhooks", shown, stop).await,
            Source::Secret { namespace, name: secret } => {
                let trusting = trust::trusting(webhooks, name);
                let key = (namespace.clone(), secret.clone());
                Keeper::new(client, env, key, trusting, endpoint.clone(), shown).run(stop).await;
            }
        }
        Ok(())
    }
}

/// Shows no certificate and no key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("source", &self.source).finish_non_exhaustive()
    }
}
