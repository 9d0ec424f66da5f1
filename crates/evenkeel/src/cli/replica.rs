//! What one of several replicas does beside reconciling: it stands for election, and answers probes and scrapes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;

use crate::{Env, LeaderElection, Manager, Manifests};

/// Where a deployed operator answers probes: the port that the scaffolds of kubebuilder have for them.
const DEPLOYED_PROBES: SocketAddr = everywhere(8081);
/// Where it answers scrapes: the port that those scaffolds have for metrics without TLS.
const DEPLOYED_METRICS: SocketAddr = everywhere(8080);

const fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// The flags for it, which a replica that runs and the manifests that deploy it have in common.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Replica {
    /// Reconcile only while holding a lease, so that of several replicas one works.
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
}

/// What an address on the command line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bind {
    Nowhere,
    At(SocketAddr),
}

impl Bind {
    fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Nowhere => None,
            Self::At(address) => Some(address),
        }
    }
}

impl Replica {
    /// Has a manager do it; it runs in this namespace. What the flags do not name stays as the operator's code has it.
    pub(super) fn applied(&self, manager: Manager, operator: &str, namespace: &str) -> Manager {
        let manager = match self.leader_elect {
            true => manager.leader_election(self.election(operator, namespace).identity(identity())),
            false => manager,
        };
        let probes = self.health_probe_bind_address.and_then(Bind::address);
        let metrics = self.metrics_bind_address.and_then(Bind::address);
        let manager = match probes {
            Some(address) => manager.serve(address),
            None => manager,
        };
        // Two ports that the system chooses are two.
        match metrics.filter(|address| Some(*address) != probes || address.port() == 0) {
            Some(address) => manager.serve_metrics(address),
            None => manager,
        }
    }

    /// What a cluster needs for it: the rules of the lease, the arguments, and the probes.
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
        manifests.args(self.arguments(probes, metrics))
    }

    fn election(&self, operator: &str, namespace: &str) -> LeaderElection {
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(operator);
        LeaderElection::new(self.leader_elect_resource_namespace.as_deref().unwrap_or(namespace), name)
    }

    /// The command line that gives these flags again.
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

/// Who stands for election: the pod, which `kubectl get lease` then shows, and something that a restart changes.
fn identity() -> String {
    let uid = Env::system().uid();
    match std::env::var("HOSTNAME") {
        Ok(host) if !host.is_empty() => format!("{host}_{uid}"),
        _ => uid,
    }
}

/// Reads an address as controller-runtime takes it: without a host it is every interface, and `0` is nowhere.
fn bind(text: &str) -> Result<Bind, String> {
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

fn spelled(bind: Bind) -> String {
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
