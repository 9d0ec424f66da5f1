//! The flags of the webhook server.

use std::path::PathBuf;

use clap::Args;

use super::replica::{Bind, bind, spelled};
use crate::{Manager, Manifests, WebhookServer};

/// The flags of the webhook server, shared by running and by printing manifests.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Flags {
    /// Where webhooks are served, for example `:9443` or `127.0.0.1:9443` [default: `:9443`].
    #[arg(long, global = true, value_name = "ADDRESS", value_parser = bind)]
    webhook_bind_address: Option<Bind>,
    /// A folder with the files tls.crt and tls.key for the webhooks, in which cert-manager's Secrets can be mounted
    /// [default: the operator makes its own certificates, in a Secret].
    #[arg(long, global = true, value_name = "FOLDER")]
    webhook_cert_dir: Option<PathBuf>,
    /// The URL at which the API server reaches the webhooks of a process outside of the cluster, for example
    /// `https://192.0.2.1:9443`. The configurations of the webhooks are applied with this URL.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
}

impl Flags {
    /// Returns the address and the folder of the certificates, if the flags give them.
    pub(super) fn given(&self) -> (Option<Bind>, Option<String>) {
        let folder = self.webhook_cert_dir.as_ref().map(|folder| folder.display().to_string());
        (self.webhook_bind_address, folder)
    }

    /// Sets whether another component makes the certificates.
    pub(super) fn certified_elsewhere(&mut self, elsewhere: bool) {
        match elsewhere {
            true => drop(self.webhook_cert_dir.get_or_insert_with(PathBuf::new)),
            false => self.webhook_cert_dir = None,
        }
    }

    pub(super) fn has_url(&self) -> bool {
        self.webhook_url.is_some()
    }

    /// Applies these flags to a manager. Settings in the operator's code stay unless a flag overrides them.
    pub(super) fn applied(&self, manager: Manager, operator: &str, namespace: &str) -> Manager {
        let Self { webhook_bind_address, webhook_cert_dir, webhook_url } = self;
        if webhook_bind_address.is_none() && webhook_cert_dir.is_none() && webhook_url.is_none() {
            return manager;
        }
        let mut server = WebhookServer::new(namespace, operator);
        if let Some(address) = webhook_bind_address.and_then(Bind::address) {
            server = server.address(address);
        }
        if let Some(folder) = webhook_cert_dir {
            server = server.certificates_in_folder(folder);
        }
        if let Some(url) = webhook_url {
            server = server.url(url);
        }
        manager.webhook_server(server)
    }

    /// Adds what these flags need to the manifests: the port, the mounted certificates and the arguments.
    pub(super) fn deployed(&self, mut manifests: Manifests) -> Manifests {
        if let Some(bind) = self.webhook_bind_address {
            if let Some(address) = bind.address() {
                manifests = manifests.webhook_port(address.port());
            }
            manifests = manifests.args([format!("--webhook-bind-address={}", spelled(bind))]);
        }
        if let Some(folder) = &self.webhook_cert_dir {
            let folder = folder.display().to_string();
            manifests = manifests.args([format!("--webhook-cert-dir={folder}")]);
            manifests = manifests.webhook_certificates_in_folder(folder);
        }
        manifests
    }
}
