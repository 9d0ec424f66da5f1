//! The address, certificates and endpoint of a manager's webhook server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_env::Env;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::configuration::{secret_name, service_name};
use super::server::{Server, Stop};
use super::{Certificates, Endpoint, Webhooks};
use crate::error::BoxError;
use crate::listen::Listen;

/// The default webhook port of controller-runtime and kubebuilder.
const PORT: u16 = 9443;

/// How often [`WebhookServer::serve`] checks for the first certificate. Making or reading it takes a few requests.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The server for a manager's webhooks: its address, its certificates, and how the API server reaches it.
///
/// By default it listens on port 9443 of every interface, is reached through the Service `NAME-webhook`, and makes its
/// own certificates, which all replicas share through the Secret `NAME-webhook-cert`. The configurations of the
/// webhooks have the operator's name. [`Manager::manifests`](crate::Manager::manifests) contains all of these objects.
///
/// ```no_run
/// # fn example(manager: evenkeel_runtime::Manager) -> evenkeel_runtime::Manager {
/// use evenkeel_runtime::webhook::WebhookServer;
///
/// // In the cluster, without another component:
/// let server = WebhookServer::new("operators", "sites");
/// // With the certificates of cert-manager, mounted as files:
/// let server = WebhookServer::new("operators", "sites").certificates_in_folder("/certificates");
/// // On a laptop that the API server can reach:
/// let server = WebhookServer::new("default", "sites").url("https://192.0.2.1:9443");
/// manager.webhook_server(server)
/// # }
/// ```
#[must_use]
pub struct WebhookServer {
    name: String,
    listen: Listen,
    endpoint: Endpoint,
    certificates: Certificates,
}

impl WebhookServer {
    /// Makes the server of the operator with this name, which runs in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            listen: Listen::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)),
            endpoint: Endpoint::service(namespace, service_name(name)),
            certificates: Certificates::in_secret(namespace, &secret_name(name)),
        }
    }

    /// Sets the address. The default is port 9443 of every interface.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.listen = Listen::Address(address);
        self
    }

    /// Serves on a listener that is already bound, to a port that the system chose, or by the process that started this
    /// one.
    pub fn listener(mut self, listener: std::net::TcpListener) -> Self {
        self.listen = Listen::On(listener);
        self
    }

    /// Sets the URL, with host and port, at which the API server reaches this process, instead of a Service.
    pub fn url(mut self, base: impl Into<String>) -> Self {
        self.endpoint = Endpoint::url(base);
        self
    }

    /// Sets the Service through which the API server reaches the replicas. The default is `NAME-webhook`.
    pub fn service(mut self, namespace: &str, name: &str) -> Self {
        self.endpoint = Endpoint::service(namespace, name);
        self
    }

    /// Reads the certificate from the files `tls.crt` and `tls.key` in this folder, in which cert-manager's Secrets can
    /// be mounted. The files are read again when they change. The component that makes them must also maintain the
    /// `caBundle` of the configurations.
    pub fn certificates_in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.certificates = Certificates::in_folder(folder);
        self
    }

    /// Shares the certificates through this Secret. The default is `NAME-webhook-cert` in the operator's namespace.
    pub fn certificates_in_secret(mut self, namespace: &str, name: &str) -> Self {
        self.certificates = Certificates::in_secret(namespace, name);
        self
    }

    /// How the API server reaches this server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The name of the operator and of the configurations.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Serves webhooks that were [taken](crate::Manager::take_webhooks) out of a manager, and maintains their
    /// certificates, until `stop` is cancelled. Dropping the future ends both at once, like a process that is killed.
    ///
    /// Connections are not accepted before there is a certificate, so that a replica that shares its
    /// [listener](WebhookServer::listener) with others takes no connection that it could not answer.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub async fn serve(
        self,
        webhooks: Webhooks,
        client: Client,
        env: Env,
        stop: CancellationToken,
    ) -> Result<(), BoxError> {
        let (name, listen, endpoint, certificates) = self.into_parts();
        let server = Server::new(webhooks.clone(), &certificates, env.clone());
        let serving = async {
            while certificates.check(env.now()).is_err() {
                if stop.is_cancelled() {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let (stopping, linger) = (stop.clone(), Duration::ZERO);
            server.serve(listen, Stop { stopping, stop: stop.clone(), linger }).await.map_err(BoxError::from)
        };
        let keeping = certificates.keep(client, env.clone(), &webhooks, &name, &endpoint, stop.clone());
        tokio::try_join!(serving, keeping).map(|_| ())
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.listen.port()
    }

    /// The folder of the certificates, if another component makes them.
    pub(crate) fn certificate_folder(&self) -> Option<&Path> {
        self.certificates.folder()
    }

    pub(crate) fn into_parts(self) -> (String, Listen, Endpoint, Certificates) {
        (self.name, self.listen, self.endpoint, self.certificates)
    }
}

impl fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookServer")
            .field("name", &self.name)
            .field("listen", &self.listen)
            .field("endpoint", &self.endpoint)
            .field("certificates", &self.certificates)
            .finish()
    }
}
