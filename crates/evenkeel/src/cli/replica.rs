//! What one of several replicas does beside reconciling: it stands for election, and answers probes and scrapes.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

use crate::{Env, LeaderElection, Manager, Manifests};

/// Where a deployed operator answers: the port that the scaffolds of controller-runtime use for metrics.
const DEPLOYED: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);

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
    /// Where /healthz, /readyz and /metrics are served, for example `:8080` or `127.0.0.1:9090` [default: nowhere;
    /// in manifests `:8080`].
    #[arg(long, global = true, value_name = "ADDRESS", value_parser = address)]
    bind_address: Option<SocketAddr>,
}

impl Replica {
    /// Has a manager do it; it runs in this namespace. What the flags do not name stays as the operator's code has it.
    pub(super) fn applied(&self, manager: Manager, operator: &str, namespace: &str) -> Manager {
        let manager = match self.leader_elect {
            true => manager.leader_election(self.election(operator, namespace).identity(identity())),
            false => manager,
        };
        match self.bind_address {
            Some(address) => manager.serve(address),
            None => manager,
        }
    }

    /// What a cluster needs for it: the rules of the lease, the arguments, and the probes.
    pub(super) fn deployed(&self, manifests: Manifests, operator: &str) -> Manifests {
        let address = self.bind_address.unwrap_or(DEPLOYED);
        let manifests = match self.leader_elect {
            true => {
                let election = self.election(operator, manifests.namespace());
                manifests.leader_election(&election)
            }
            false => manifests,
        };
        manifests.port(address.port()).args(self.arguments(address))
    }

    fn election(&self, operator: &str, namespace: &str) -> LeaderElection {
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(operator);
        LeaderElection::new(self.leader_elect_resource_namespace.as_deref().unwrap_or(namespace), name)
    }

    /// The command line that gives these flags again.
    fn arguments(&self, address: SocketAddr) -> Vec<String> {
        let mut arguments = vec![format!("--bind-address={}", spelled(address))];
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

/// Reads an address as Go's programs take it: without a host it is every interface.
fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("{}:{port}", Ipv4Addr::UNSPECIFIED),
        None => text.to_owned(),
    };
    whole.parse().map_err(|_| "it must be IP:PORT, or :PORT for every interface".to_owned())
}

fn spelled(address: SocketAddr) -> String {
    match address.ip() == Ipv4Addr::UNSPECIFIED {
        true => format!(":{}", address.port()),
        false => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_out_its_host() {
        let check = |text: &str, wanted: &str| assert_eq!(spelled(address(text).unwrap()), wanted);
        check(":8080", ":8080");
        check("0.0.0.0:8080", ":8080");
        check("127.0.0.1:9090", "127.0.0.1:9090");
        check("[::]:8080", "[::]:8080");
        for wrong in ["", ":", "8080", ":99999", "localhost:8080"] {
            assert!(address(wrong).unwrap_err().contains(":PORT"), "{wrong}");
        }
    }
}
