//! The flags of a replica: leader election, probes and metrics.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;

use crate::{Env, LeaderElection, Manager, Manifests};

/// Where a deployed operator serves probes: the port in kubebuilder's scaffolds.
const DEPLOYED_PROBES: SocketAddr = everywhere(8081);
/// Where a deployed operator serves metrics: the port for metrics without TLS in kubebuilder's scaffolds.
const DEPLOYED_METRICS: SocketAddr = everywhere(8080);

const fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// The flags of a replica, which running and printing manifests have in common.
#[derive(Clone, Debug, Default, Args)]
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
    /// Where /metrics is served, which may be the same place; `0` for nowhere [default: nowhere; in manifests `:8080`].
    #[arg(long, global = true, value_name = "ADDRESS", value_parser = bind)]
    metrics_bind_address: Option<Bind>,
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

impl Replica {
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
            Some(address) => manager.serve(address),
            None => manager,
        };
        // Port 0 lets the system choose: two such addresses are two ports.
        match metrics.filter(|address| Some(*address) != probes || address.port() == 0) {
            Some(address) => manager.serve_metrics(address),
            None => manager,
        }
    }

    /// Adds what these flags need to the manifests: the rules of the lease, the arguments and the probes.
    pub(super) fn deployed(&self, manifests: Manifests, operator: &str) -> Manifests {
        let probes = self.health_probe_bind_address.unwrap_or(Bind::At(DEPLOYED_PROBES));
        let metrics = self.metrics_bind_address.unwrap_or(Bind::At(DEPLOYED_METRICS));
        let mut manifests = match self.leader_elect {
            true => {
                let election = self.election(operator, manifests.namespace());
                manifests.leader_election(&election)
            }
            false => manifests,
        };
        if let Bind::At(address) = probes {
            manifests = manifests.port(address.port());
        }
        if let Bind::At(address) = metrics
            && metrics != probes
        {
            manifests = manifests.metrics_port(address.port());
        }
        #[cfg(feature = "webhook-server")]
        let manifests = self.webhooks.deployed(manifests);
        manifests.args(self.arguments(probes, metrics))
    }

    fn election(&self, operator: &str, namespace: &str) -> LeaderElection {
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(operator);
        LeaderElection::new(self.leader_elect_resource_namespace.as_deref().unwrap_or(namespace), name)
    }

    /// These flags as arguments of the Deployment's container.
    fn arguments(&self, probes: Bind, metrics: Bind) -> Vec<String> {
        let mut arguments = vec![
            format!("--health-probe-bind-address={}", spelled(probes)),
            format!("--metrics-bind-address={}", spelled(metrics)),
        ];
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
