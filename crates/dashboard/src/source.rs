//! The source of the page's data: an embedded cluster, a running operator, or a saved record.

use std::sync::Arc;

use evenkeel_cluster::{Cluster, RECORD_PATH, User};
use evenkeel_record::Record;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::Client;
use serde_json::{Value, json};

/// What a dashboard shows.
#[derive(Clone)]
pub enum Source {
    /// A cluster in this process.
    Cluster(Cluster),
    /// An operator that runs elsewhere, and its cluster.
    Operator(Operator),
    /// A saved record, without a cluster.
    Record(Arc<Record>),
}

/// An operator that runs elsewhere. Only the one-time link logs in, and whoever uses it acts as the user of the client.
#[derive(Clone)]
pub struct Operator {
    /// The client for the cluster, if there is one.
    pub client: Option<Client>,
    /// The operator's record.
    pub feed: Arc<dyn Feed>,
}

/// A record that is followed as it grows.
pub trait Feed: Send + Sync {
    /// Follows the record from its beginning: the first item is the whole record, each later one has what is new. The
    /// stream ends when the operator is lost.
    fn follow(&self) -> BoxStream<'static, Record>;
}

impl Source {
    /// The cluster in this process, if there is one.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Operator(_) | Self::Record(_) => None,
        }
    }

    /// A client that acts as this user.
    pub(crate) fn client_as(&self, user: &User) -> Option<Client> {
        match self {
            Self::Cluster(cluster) => Some(cluster.acting_as(user.clone()).client()),
            Self::Operator(operator) => operator.client.clone(),
            Self::Record(_) => None,
        }
    }

    /// A client that acts as this user, and whose requests the page does not show: they are its own.
    pub(crate) fn quiet_client_as(&self, user: &User) -> Option<Client> {
        match self {
            Self::Cluster(cluster) => Some(cluster.acting_as(user.clone()).quiet_client()),
            Self::Operator(_) | Self::Record(_) => self.client_as(user),
        }
    }

    /// Returns the user of a bearer token, or `None` if the token is not accepted.
    pub(crate) async fn authenticate(&self, token: &str) -> Option<User> {
        let client = self.cluster()?.quiet_client();
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
        match self {
            Self::Cluster(_) => {}
            // The operator has let this process read its record.
            Self::Operator(_) | Self::Record(_) => return verb == "get",
        }
        let Some(client) = client else { return false };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"nonResourceAttributes": {"path": RECORD_PATH, "verb": verb}},
        });
        let answer = post(client, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
        answer.is_some_and(|answer| answer["status"]["allowed"] == true)
    }

    /// The whole record.
    pub(crate) async fn record(&self) -> Arc<Record> {
        match self {
            Self::Cluster(cluster) => Arc::new(cluster.record()),
            Self::Operator(operator) => Arc::new(operator.feed.follow().next().await.unwrap_or_default()),
            Self::Record(record) => record.clone(),
        }
    }

    /// Follows the record from its beginning. `None` for a saved record, which does not grow.
    pub(crate) fn follow(&self) -> Option<BoxStream<'static, Record>> {
        match self {
            Self::Cluster(cluster) => Some(cluster.follow_whole_record().stream().boxed()),
            Self::Operator(operator) => Some(operator.feed.follow()),
            Self::Record(_) => None,
        }
    }
}

async fn post(client: &Client, path: &str, body: &Value) -> Option<Value> {
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request(request.body(body.to_string().into_bytes()).ok()?).await.ok()
}
