//! Starts the server for a manager's webhooks.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::stage::Stages;
use super::super::{Manager, ManagerError};
use crate::manifests::Manifests;
use crate::tasks::Tasks;
use crate::webhook::{Server, Stop, WebhookServer, Webhooks};

/// How long a replica behind a Service keeps serving after it has become unready. EndpointSlices follow within about a
/// second, and the default grace period of a pod is 30 seconds.
const LINGER: Duration = Duration::from_secs(3);

/// Adds the port, endpoint and certificates of the server to the manifests.
pub(super) fn declared(server: &WebhookServer, manifests: Manifests) -> Manifests {
    let manifests = match server.port() {
        Some(port) => manifests.webhook_port(port),
        None => manifests,
    };
    let manifests = match server.certificate_folder() {
        Some(folder) => manifests.webhook_certificates_in_folder(folder.to_string_lossy()),
        None => manifests,
    };
    match server.endpoint().is_service() {
        // The manifests contain a Service of their own.
        true => manifests,
        false => manifests.webhook_endpoint(server.endpoint().clone()),
    }
}

impl Manager {
    /// Serves the webhooks of this manager over TLS, on every replica, whether or not it leads.
    ///
    /// The server is part of `/readyz`: it is ready when it listens and has a valid certificate. When the manager
    /// stops, the server becomes unready at once, and stops after everything else.
    pub fn webhook_server(mut self, server: WebhookServer) -> Self {
        self.hooks.server = Some(server);
        self
    }

    /// Starts the server, and the task that renews its certificates.
    pub(super) fn start_server(
        &mut self,
        webhooks: Webhooks,
        server: WebhookServer,
        (tasks, stages): (&Tasks, &mut Stages),
        stopping: CancellationToken,
    ) -> Result<(), ManagerError> {
        let (name, listen, endpoint, certificates) = server.into_parts();
        let linger = if endpoint.is_service() { LINGER } else { Duration::ZERO };
        let stop = stages.servers.stop.clone();
        let served = Server::new(webhooks.clone(), &certificates, self.env.clone());
        #[cfg(feature = "health")]
        {
            let (served, stopping) = (served.clone(), stopping.clone());
            self.serving.ready("webhooks", move || served.check(&stopping));
        }
        let shown = certificates.shown();
        self.metrics.certificate("webhooks", move || shown.until());
        let running = served.serve(listen, Stop { stopping, stop: stop.clone(), linger });
        stages.servers.start(tasks, "webhooks".into(), async move { Ok(running.await?) });
        let (client, env) = (self.unfenced.clone(), self.env.clone());
        let keeping = async move { certificates.keep(client, env, &webhooks, &name, &endpoint, stop).await };
        stages.servers.start(tasks, "certificates of webhooks".into(), keeping);
        Ok(())
    }
}
