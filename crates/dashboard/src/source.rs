//! The source of the page's data: an embedded cluster, or a saved record.

use std::sync::Arc;

use evenkeel_cluster::{Cluster, User};
use evenkeel_record::Record;
use kube::Client;
use serde_json::{Value, json};

/// What a dashboard shows.
#[derive(Clone)]
pub enum Source {
    /// A cluster in this process.
    Cluster(Cluster),
    /// A saved record, without a cluster.
    Record(Arc<Record>),
}

/// The non-resource path that RBAC checks before a user may read the record (`get`) or act on the cluster (`post`).
const PATH: &str = "/debug/evenkeel";

impl Source {
    /// The cluster, if there is one.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Record(_) => None,
        }
    }

    /// A client that acts as this user.
    pub(crate) fn client_as(&self, user: &User) -> Option<Client> {
        Some(self.cluster()?.acting_as(user.clone()).client())
    }

    /// Returns the user of a bearer token, or `None` if the token is not accepted.
    pub(crate) async fn authenticate(&self, token: &str) -> Option<User> {
        let client = self.cluster()?.client();
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let answer = post(&client, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
        let status = &answer["status"];
        let name = status["user"]["username"].as_str().filter(|_| status["authenticated"] == true)?;
        let groups = status["user"]["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut user = User::new(name, groups);
        user.uid = status["user"]["uid"].as_str().unwrap_or_default().to_owned();
        Some(user)
    }

    /// Whether the user of this client may use this verb on the record's path.
    pub(crate) async fn allows(&self, client: Option<&Client>, verb: &str) -> bool {
        let Some(client) = client else { return matches!(self, Self::Record(_)) };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"nonResourceAttributes": {"path": PATH, "verb": verb}},
        });
        let answer = post(client, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
        answer.is_some_and(|answer| answer["status"]["allowed"] == true)
    }

    /// The whole record.
    pub(crate) fn record(&self) -> Arc<Record> {
        match self {
            Self::Cluster(cluster) => Arc::new(cluster.record()),
            Self::Record(record) => record.clone(),
        }
    }
}

async fn post(client: &Client, path: &str, body: &Value) -> Option<Value> {
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request(request.body(body.to_string().into_bytes()).ok()?).await.ok()
}
