//! Running an operator within the RBAC rules of its manifests, and without each single rule.

use std::fmt;

use evenkeel_runtime::manifests::{Manifests, Verbs};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::files::lines;
use super::run::in_a_cluster;
use crate::cluster::Cluster;
use crate::transport::{Moment, Outcome};

/// Plays a scenario with an operator that runs as the ServiceAccount of its manifests. None of the operator's requests
/// may be refused, and a request that the rules do not allow (to read a Node) must be. Returns the verbs that the
/// operator used, for [`assert_file`](super::assert_file).
///
/// `start` runs the operator under the name of the manifests, with the handle that acts as the ServiceAccount. `drive`
/// plays the scenario as the administrator.
///
/// ```
/// # use std::sync::Arc;
/// use evenkeel_cluster::testing;
/// use evenkeel_runtime::{Action, Ctx, Controller, Manifests, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
/// #     let mut secret = Secret::default();
/// #     secret.metadata.name = map.metadata.name.clone();
/// #     ctx.apply(secret).await?;
/// #     Ok(Action::await_change())
/// # }
/// # async fn scenario(cluster: evenkeel_cluster::Cluster) {
/// #     let mut map = ConfigMap::default();
/// #     map.metadata.name = Some("a".into());
/// #     cluster.apply(map).await.expect("the ConfigMap is valid");
/// #     cluster.settled().await;
/// # }
/// fn controller() -> Controller<ConfigMap> {
///     Controller::new("copy", reconcile).owns::<Secret>()
/// }
///
/// let manifests = || Manifests::new("copy", "operators").controller(&controller());
/// let verbs = testing::as_service_account(manifests, |account| account.run(controller), scenario);
/// assert!(verbs.to_string().contains("secrets: create patch"));
/// ```
///
/// # Panics
/// Panics if a request is wrongly refused or allowed, and shows what happened.
pub fn as_service_account<F: Future>(
    manifests: impl Fn() -> Manifests,
    start: impl Fn(&Cluster),
    drive: impl Fn(Cluster) -> F,
) -> Verbs {
    account_verbs(manifests, start, drive).1
}

/// Checks what [`as_service_account`] checks, and returns the name of the operator with its verbs.
pub(super) fn account_verbs<F: Future>(
    manifests: impl Fn() -> Manifests,
    start: impl Fn(&Cluster),
    drive: impl Fn(Cluster) -> F,
) -> (String, Verbs) {
    in_a_cluster(|cluster| {
        let driven = drive(cluster.clone());
        async move {
            let manifests = manifests();
            let account = install(&cluster, &manifests, None).await;
            start(&account);
            driven.await;
            let name = manifests.name();
            let refused: Vec<_> = cluster.forbidden().into_iter().filter(|it| &*it.by == name).collect();
            assert_eq!(lines(&refused), Vec::<String>::new(), "its rules do not allow it");
            let outside = account.get_opt::<Node>("none").await;
            let told = outside.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(told.contains("cannot get resource \"nodes\""), "its rules allow too much: {told}");
            (name.to_owned(), cluster.verbs(name))
        }
    })
}

/// Finds the RBAC rules that an operator does not need. Plays a scenario once for each verb on each resource that the
/// rules of the manifests allow, without that permission. Returns the permissions that the operator did not miss.
///
/// The arguments are those of [`as_service_account`], which should pass first. A run ends with the first refusal.
///
/// ```
/// # use std::sync::Arc;
/// use evenkeel_cluster::testing;
/// # use evenkeel_runtime::{Action, Ctx, Controller, Manifests, Result};
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
/// #     let mut secret = Secret::default();
/// #     secret.metadata.name = map.metadata.name.clone();
/// #     ctx.apply(secret).await?;
/// #     Ok(Action::await_change())
/// # }
/// # async fn scenario(cluster: evenkeel_cluster::Cluster) {
/// #     let mut map = ConfigMap::default();
/// #     map.metadata.name = Some("a".into());
/// #     cluster.apply(map).await.expect("the ConfigMap is valid");
/// #     cluster.settled().await;
/// # }
/// # fn controller() -> Controller<ConfigMap> {
/// #     Controller::new("copy", reconcile).owns::<Secret>()
/// # }
/// # let manifests = || {
/// #     let verbs = "secrets: create patch".parse().unwrap();
/// #     Manifests::new("copy", "operators").controller(&controller()).verbs(verbs)
/// # };
/// let spare = testing::unused_rules(manifests, |account| account.run(controller), scenario);
/// // `list` is for servers without streaming lists, `get` for a cache that is behind, and `finalizers` for servers
/// // that enforce permissions on owner references.
/// let expected = ["configmaps: get", "configmaps: list", "configmaps/finalizers: update", "secrets: list"];
/// assert_eq!(spare, expected);
/// ```
pub fn unused_rules<F: Future>(
    manifests: impl Fn() -> Manifests,
    start: impl Fn(&Cluster),
    drive: impl Fn(Cluster) -> F,
) -> Vec<String> {
    // Manifests are created inside of a Tokio runtime, because controllers need one.
    let granted = in_a_cluster(|_| async { granted(&manifests().objects()) });
    let misses = |grant: &&Grant| {
        in_a_cluster(|cluster| {
            let (driven, manifests, start) = (drive(cluster.clone()), &manifests, &start);
            async move {
                let manifests = manifests();
                let account = install(&cluster, &manifests, Some(*grant)).await;
                let mut seen = cluster.observe();
                start(&account);
                tokio::select! {
                    biased;
                    () = refusal(&mut seen, manifests.name()) => true,
                    _ = driven => false,
                }
            }
        })
    };
    granted.iter().filter(|grant| !misses(grant)).map(Grant::to_string).collect()
}

/// The permission for one verb on one resource, in a role.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    /// The index of the role among the objects.
    role: usize,
    group: String,
    resource: String,
    verb: String,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plural, part) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let dot = if self.group.is_empty() { "" } else { "." };
        let slash = if part.is_empty() { "" } else { "/" };
        write!(f, "{plural}{dot}{}{slash}{part}: {}", self.group, self.verb)
    }
}

/// Every single permission that the roles among these objects grant.
fn granted(objects: &[Value]) -> Vec<Grant> {
    let mut granted = Vec::new();
    for (role, object) in objects.iter().enumerate() {
        for rule in list(&object["rules"]) {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let grant = |verb| Grant { role, group: group.clone(), resource: resource.clone(), verb };
                    granted.extend(texts(&rule["verbs"]).into_iter().map(grant));
                }
            }
        }
    }
    granted
}

/// Removes a permission from these objects: each rule that grants it is split into one rule for each of its resources.
fn without(mut objects: Vec<Value>, grant: &Grant) -> Vec<Value> {
    let rules = &mut objects[grant.role]["rules"];
    let mut left = Vec::new();
    for rule in list(rules) {
        for resource in texts(&rule["resources"]) {
            let mut narrow = rule.clone();
            narrow["resources"] = json!([resource]);
            if resource == grant.resource && texts(&rule["apiGroups"]).contains(&grant.group) {
                narrow["verbs"] =
                    texts(&rule["verbs"]).into_iter().filter(|verb| *verb != grant.verb).collect();
            }
            // The API server refuses a rule without verbs.
            if !list(&narrow["verbs"]).is_empty() {
                left.push(narrow);
            }
        }
    }
    *rules = left.into();
    objects
}

async fn install(cluster: &Cluster, manifests: &Manifests, cut: Option<&Grant>) -> Cluster {
    let objects = match cut {
        Some(grant) => without(manifests.objects(), grant),
        None => manifests.objects(),
    };
    let installed = cluster.install_objects(manifests, objects).await;
    installed.unwrap_or_else(|error| panic!("the manifests cannot be applied: {error}"))
}

/// Waits until a request of this client is refused.
async fn refusal(seen: &mut Receiver<Moment>, by: &str) {
    loop {
        match seen.recv().await {
            Ok(Moment::Request(request)) if &*request.by == by => {
                if matches!(request.outcome, Outcome::Answered { status: 403, .. }) {
                    return;
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_grant_is_cut_out_of_its_role() {
        let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments", "replicasets/scale"], "verbs": ["get", "list"]}]);
        let objects = vec![json!({"kind": "ServiceAccount"}), json!({"kind": "Role", "rules": rules})];
        let grants = granted(&objects);
        let all = [
            "deployments.apps: get",
            "deployments.apps: list",
            "replicasets.apps/scale: get",
            "replicasets.apps/scale: list",
        ];
        assert_eq!(lines(&grants), all);
        for (at, grant) in grants.iter().enumerate() {
            let mut expected = grants.clone();
            expected.remove(at);
            assert_eq!(granted(&without(objects.clone(), grant)), expected);
        }
    }
}
