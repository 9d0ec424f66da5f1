//! Certificates for the webhook server: made and renewed by the operator itself, or read from a folder.
//!
//! By default, all replicas share one Secret with the certificates. Each serving certificate is signed by a CA of its
//! own, whose key is discarded at once: no key exists that could sign another certificate. A renewal takes these steps.
//! Any replica can take any of them, and each is one write with optimistic concurrency:
//!
//! 1. The next certificate and its CA are written to the Secret.
//! 2. The CA is added to the `caBundle` of every configuration and CustomResourceDefinition. From now on, both the old
//!    and the new CA are trusted.
//! 3. A replica that reads all of these objects and finds the CA in each of them writes the time to the Secret. All API
//!    servers have the new bundle after [`plan::SETTLE`].
//! 4. A replica makes the next certificate the current one if it has itself seen the CA in all of these objects for at
//!    least [`plan::SEEN`]. Thus, no replica promotes too early because a clock is wrong.
//! 5. Each replica serves with the current certificate as soon as it has seen that every configuration trusts its CA. The
//!    old CA stays in the bundle until the old certificate has expired, because a replica that lost its connection to the
//!    API server may serve with the old certificate until then.
//!
//! A replica never applies an outdated bundle. It reads the configurations first and the Secret second, and applies the
//! bundle on the condition that the configuration has not changed. If a configuration trusts a CA that the replica does
//! not know, the configuration has changed since the read.
//!
//! A user may replace the Secret, for example by an old copy, so that it contains a certificate that no configuration
//! trusts. A replica that serves with another certificate writes that one back, and the replacement becomes the next
//! certificate.
//!
//! *Invariants:* a certificate becomes the current one only after every configuration trusts its CA. A replica with a
//! valid certificate switches to another one only after it has read that trust from the configurations.

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

/// The certificates that the webhook server presents.
///
/// [`Manager::webhook_server`](crate::Manager::webhook_server) maintains them. Call [`Certificates::keep`] yourself
/// only if you serve the webhooks with a server of your own. Clones share the certificate.
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
    /// Certificates that the replicas make themselves and share through this Secret.
    pub fn in_secret(namespace: &str, name: &str) -> Self {
        let source = Source::Secret { namespace: namespace.into(), name: name.into() };
        Self { source, shown: Shown::default() }
    }

    /// Certificates in a folder with the files `tls.crt` and `tls.key`, in which cert-manager's Secrets can be mounted.
    /// The files are read again when they change. The component that makes them must also maintain the `caBundle` of
    /// the configurations.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { source: Source::Folder(folder.into()), shown: Shown::default() }
    }

    pub(crate) fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// The folder, if another component makes the certificates.
    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.source {
            Source::Secret { .. } => None,
            Source::Folder(folder) => Some(folder),
        }
    }

    /// Returns the certificate chain that clients see at this time, in DER, or `None` if there is no valid certificate.
    pub fn chain(&self, now: Timestamp) -> Option<Vec<Vec<u8>>> {
        Some(self.shown.chain(now)?.iter().map(|certificate| certificate.to_vec()).collect())
    }

    /// Checks that clients see a valid certificate at this time.
    ///
    /// # Errors
    /// Returns the reason why there is no valid certificate.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        self.shown.check(now)
    }

    /// Makes, renews and loads the certificates until `stop` is cancelled. Maintains the `caBundle` in the
    /// configurations with this name, and in the CustomResourceDefinitions whose objects the webhooks convert. Every
    /// replica does this.
    ///
    /// # Errors
    /// Never fails at present. Failures are logged, reported by [`Certificates::check`], and retried.
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

/// Leaves out the certificate and the key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("source", &self.source).finish_non_exhaustive()
    }
}
