//! The flags of a replica: leader election, probes and metrics.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::bail;
use clap::{ArgAction, Args};

use crate::{Env, LeaderElection, Manager, Manifests, SecuredServer};

/// Where a deployed operator serves probes: the port in kubebuilder's scaffolds.
const DEPLOYED_PROBES: SocketAddr = everywhere(8081);
/// The metrics addresses of a deployed operator, with TLS and without: the ports of kubebuilder's scaffolds.
const DEPLOYED_SECURED_METRICS: SocketAddr = everywhere(8443);
const DEPLOYED_PLAIN_METRICS: SocketAddr = everywhere(8080);

const fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// The flags of a replica, which running and printing manifests have in common.
#[derive(Clone, Debug, Args)]
pub(super) struct Replica {
    /// Reconcile only while holding a lease, so that only one of several replicas works.
    #[arg(long, global = true)]
    leader_elect: bool,
    /// The name of the lease [default: the operator's name].
    #[arg(long, global = true, requires = "leader_elect", value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// The namespace of the lease [default: the one that the operator runs in].
    #[arg(long, global = true, requires = "leader_elect", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// Where /healthz and /readyz are served, for example `:8081` or `127.0.0.1:9090`; `0` for nowhere [default:
    /// nowhere; in manifests `:8081`].
    #[arg(long, global = true, value_name = "ADDRESS", value_parser = bind)]
    health_probe_bind_address: Option<Bind>,
    /// Where /metrics is served, or `0` for nowhere [default: nowhere; in manifests `:8443`, or `:8080` without TLS].
    #[arg(long, global = true, value_name = "ADDRESS", value_parser = bind)]
    metrics_bind_address: Option<Bind>,
    /// Serve /metrics over TLS, and only to clients whom the API server allows to `get` that path. With
    /// `--metrics-secure=false`, everyone who reaches the port can read it, and the port may then be that of the
    /// probes.
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", default_value = "true")]
    metrics_secure: bool,
    /// A folder with the files tls.crt and tls.key for the metrics, in which cert-manager's Secrets can be mounted
    /// [default: the operator makes a certificate, which clients cannot verify].
    #[arg(long, global = true, value_name = "FOLDER")]
    metrics_cert_dir: Option<PathBuf>,
    #[cfg(feature = "webhook-server")]
    #[command(flatten)]
    pub(super) webhooks: super::webhooks::Flags,
}

/// The meaning of an address on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bind {
    Nowhere,
    At(SocketAddr),
}

impl Bind {
    pub(super) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Nowhere => None,
            Self::At(address) => Some(address),
        }
    }
}

/// What a deployed replica serves, and at which addresses.
#[derive(Clone, Debug)]
pub(super) struct Serves {
    pub(super) probes: Bind,
    pub(super) metrics: Bind,
    /// Whether metrics are served over TLS.
    pub(super) secured: bool,
    /// The folder of the metrics certificate, if the operator does not make it itself.
    pub(super) metrics_certificates: Option<String>,
}

impl Replica {
    /// Refuses contradictory flags.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let same = self.metrics_bind_address.filter(|bind| Some(*bind) == self.health_probe_bind_address);
        let shared = same.and_then(Bind::address).filter(|address| address.port() != 0);
        if let Some(address) = shared
            && self.metrics_secure
        {
            bail!(
                "probes and metrics cannot share {address}: probes are plain HTTP, metrics are served over TLS (hint: give \
                 them two ports, or everybody the metrics by --metrics-secure=false)"
            );
        }
        if self.metrics_cert_dir.is_some() && !self.metrics_secure {
            bail!("--metrics-cert-dir needs metrics over TLS (hint: leave out --metrics-secure=false)");
        }
        Ok(())
    }

    /// Returns what a replica serves in a cluster, by these flags and their defaults.
    pub(super) fn serves(&self) -> anyhow::Result<Serves> {
        self.check()?;
        Ok(self.serves_unchecked())
    }

    fn serves_unchecked(&self) -> Serves {
        let usual = if self.metrics_secure { DEPLOYED_SECURED_METRICS } else { DEPLOYED_PLAIN_METRICS };
        Serves {
            probes: self.health_probe_bind_address.unwrap_or(Bind::At(DEPLOYED_PROBES)),
            metrics: self.metrics_bind_address.unwrap_or(Bind::At(usual)),
            secured: self.metrics_secure,
            metrics_certificates: self.metrics_cert_dir.as_ref().map(|folder| folder.display().to_string()),
        }
    }

    /// Returns the name and namespace of the lease from the flags, empty if not given. Returns `None` without an
    /// election.
    pub(super) fn lease_flags(&self) -> Option<(String, String)> {
        let given = |flag: &Option<String>| flag.clone().unwrap_or_default();
        self.leader_elect
            .then(|| (given(&self.leader_elect_resource_name), given(&self.leader_elect_resource_namespace)))
    }

    /// Enables a leader election with a lease of this name and namespace, or disables it.
    pub(super) fn lease(&mut self, lease: Option<(&str, &str)>) {
        self.leader_elect = lease.is_some();
        self.leader_elect_resource_name = lease.map(|(name, _)| name.to_owned());
        self.leader_elect_resource_namespace = lease.map(|(_, namespace)| namespace.to_owned());
    }

    /// Sets whether metrics are served, and whether over TLS. The address stays the same.
    pub(super) fn metrics(&mut self, served: bool, secured: bool) {
        match (served, self.metrics_bind_address) {
            (false, _) => self.metrics_bind_address = Some(Bind::Nowhere),
            (true, Some(Bind::Nowhere)) => self.metrics_bind_address = None,
            (true, _) => {}
        }
        self.metrics_secure = secured;
    }

    /// Returns the address of the webhooks and the folder of their certificates, if the flags give them.
    pub(super) fn webhook_flags(&self) -> (Option<Bind>, Option<String>) {
        #[cfg(feature = "webhook-server")]
        return self.webhooks.given();
        #[cfg(not(feature = "webhook-server"))]
        (None, None)
    }

    /// Sets these flags on a manager that runs in this namespace. Without a flag, the setting of the operator's code stays.
    pub(super) fn applied(&self, manager: Manager, operator: &str, namespace: &str) -> Manager {
        let manager = match self.leader_elect {
            true => manager.leader_election(self.election(operator, namespace).identity(identity())),
            false => manager,
        };
        #[cfg(feature = "webhook-server")]
        let manager = self.webhooks.applied(manager, operator, namespace);
        let probes = self.health_probe_bind_address.and_then(Bind::address);
        let metrics = self.metrics_bind_address.and_then(Bind::address);
        let manager = match probes {
            Some(address) if metrics == probes => manager.serve(address),
            Some(address) => manager.serve_probes(address),
            None => manager,
        };
        // Port 0 lets the system choose: two such addresses are two ports.
        match metrics.filter(|address| Some(*address) != probes || address.port() == 0) {
            Some(address) if self.metrics_secure => manager.serve_secured(self.secured_server(address)),
            Some(address) => manager.serve_metrics(address),
            None => manager,
        }
    }

    fn secured_server(&self, address: SocketAddr) -> SecuredServer {
        let server = SecuredServer::new(address);
        match &self.metrics_cert_dir {
            Some(folder) => server.certificates_in_folder(folder),
            None => server,
        }
    }

    /// Adds what these flags need to the manifests: the rules of the lease, the arguments and the probes.
    pub(super) fn deployed(&self, manifests: Manifests, operator: &str) -> Manifests {
        let serves = self.serves_unchecked();
        let mut manifests = match self.leader_elect {
            true => {
                let election = self.election(operator, manifests.namespace());
                manifests.leader_election(&election)
            }
            false => manifests,
        };
        if let Bind::At(address) = serves.probes {
            manifests = manifests.port(address.port());
        }
        if let Bind::At(address) = serves.metrics {
            manifests = match serves.secured {
                true => manifests.secured_metrics_port(address.port()),
                false if serves.metrics != serves.probes => manifests.metrics_port(address.port()),
                false => manifests,
            };
            if let Some(folder) = &serves.metrics_certificates {
                manifests = manifests.metrics_certificates_in_folder(folder);
            }
        } else {
            manifests = manifests.without_metrics();
        }
        #[cfg(feature = "webhook-server")]
        let manifests = self.webhooks.deployed(manifests);
        manifests.args(self.arguments(&serves))
    }

    fn election(&self, operator: &str, namespace: &str) -> LeaderElection {
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(operator);
        LeaderElection::new(self.leader_elect_resource_namespace.as_deref().unwrap_or(namespace), name)
    }

    /// These flags as arguments of the Deployment's container.
    fn arguments(&self, serves: &Serves) -> Vec<String> {
        let mut arguments = vec![
            format!("--health-probe-bind-address={}", spelled(serves.probes)),
            format!("--metrics-bind-address={}", spelled(serves.metrics)),
        ];
        match (serves.metrics, &serves.metrics_certificates) {
            (Bind::Nowhere, _) => {}
            (_, _) if !serves.secured => arguments.push("--metrics-secure=false".into()),
            (_, Some(folder)) => arguments.push(format!("--metrics-cert-dir={folder}")),
            (_, None) => {}
        }
        if self.leader_elect {
            arguments.push("--leader-elect".into());
        }
        let named = [
            ("name", &self.leader_elect_resource_name),
            ("namespace", &self.leader_elect_resource_namespace),
        ];
        for (what, value) in named {
            arguments.extend(value.iter().map(|value| format!("--leader-elect-resource-{what}={value}")));
        }
        arguments
    }
}

/// The identity of this candidate: the name of the pod, which `kubectl get lease` shows, and a part that changes with
/// every restart.
fn identity() -> String {
    let uid = Env::system().uid();
    match std::env::var("HOSTNAME") {
        Ok(host) if !host.is_empty() => format!("{host}_{uid}"),
        _ => uid,
    }
}

/// Reads an address as controller-runtime does: without a host it means every interface, and `0` means nowhere.
pub(super) fn bind(text: &str) -> Result<Bind, String> {
    if text == "0" {
        return Ok(Bind::Nowhere);
    }
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("{}:{port}", Ipv4Addr::UNSPECIFIED),
        None => text.to_owned(),
    };
    let parsed = whole.parse().map(Bind::At);
    parsed.map_err(|_| "it must be IP:PORT, :PORT for every interface, or 0 for nowhere".to_owned())
}

pub(super) fn spelled(bind: Bind) -> String {
    match bind {
        Bind::Nowhere => "0".to_owned(),
        Bind::At(address) if address.ip() == Ipv4Addr::UNSPECIFIED => format!(":{}", address.port()),
        Bind::At(address) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_out_its_host() {
        let check = |text: &str, wanted: &str| assert_eq!(spelled(bind(text).unwrap()), wanted);
        check(":8080", ":8080");
        check("0.0.0.0:8080", ":8080");
        check("127.0.0.1:9090", "127.0.0.1:9090");
        check("[::]:8080", "[::]:8080");
        check("0", "0");
        for wrong in ["", ":", "8080", ":99999", "localhost:8080"] {
            assert!(bind(wrong).unwrap_err().contains(":PORT"), "{wrong}");
        }
    }
}
