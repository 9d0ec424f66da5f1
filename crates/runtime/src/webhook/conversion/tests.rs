use bytes::Bytes;
use http::Request;
use serde_json::json;

use super::*;
use crate::metrics::Metrics;
use crate::webhook::{Endpoint, Webhooks};

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        pub(super) replicas: i32,
    }
}

mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v2", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        pub(super) servers: i32,
    }
}

mod v3 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v3", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        pub(super) count: i32,
    }
}

impl Convertible for v1::Site {
    type Hub = v2::Site;

    fn into_hub(self) -> Result<v2::Site> {
        if self.spec.replicas < 0 {
            return Err(Error::message("replicas are negative"));
        }
        Ok(v2::Site { metadata: self.metadata, spec: v2::SiteSpec { servers: self.spec.replicas } })
    }

    fn from_hub(hub: v2::Site) -> Result<Self> {
        Ok(v1::Site { metadata: hub.metadata, spec: v1::SiteSpec { replicas: hub.spec.servers } })
    }
}

impl Convertible for v3::Site {
    type Hub = v2::Site;

    fn into_hub(mut self) -> Result<v2::Site> {
        self.metadata.labels = None;
        Ok(v2::Site { metadata: self.metadata, spec: v2::SiteSpec { servers: self.spec.count } })
    }

    fn from_hub(mut hub: v2::Site) -> Result<Self> {
        hub.metadata.uid = Some("another".into());
        hub.metadata.labels.get_or_insert_default().insert("new".into(), "3".into());
        Ok(v3::Site { metadata: hub.metadata, spec: v3::SiteSpec { count: hub.spec.servers } })
    }
}

fn conversion() -> Conversion<v2::Site> {
    Conversion::new().spoke::<v1::Site>().spoke::<v3::Site>()
}

fn site(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Site", "spec": spec,
        "metadata": { "name": "web", "uid": "u", "newerField": 1, "annotations": { "a": "1" } },
    })
}

/// Spokes are converted by way of the hub. A conversion changes only the labels and annotations of the metadata.
#[test]
fn every_version_becomes_every_other() {
    let first = site("v1", json!({ "replicas": 3 }));
    assert_eq!(conversion().convert(&first, "v2").unwrap(), site("v2", json!({ "servers": 3 })));
    let mut third = site("v3", json!({ "count": 3 }));
    third["metadata"]["labels"] = json!({ "new": "3" });
    assert_eq!(conversion().convert(&first, "v3").unwrap(), third);
    assert_eq!(conversion().convert(&third, "v1").unwrap(), first);
    assert_eq!(conversion().convert(&first, "v1").unwrap(), first);
    let error = conversion().convert(&first, "v9").unwrap_err().to_string();
    assert_eq!(error, "Site.example.com has no version v9; there are v1, v2, v3");
    let error = conversion().convert(&site("v1", json!({ "replicas": -1 })), "v3").unwrap_err().to_string();
    assert_eq!(error, "convert Site.example.com \"web\" from v1 to v3: replicas are negative");
}

#[test]
fn the_definition_has_all_versions_and_stores_one() {
    let stored = |conversion: Conversion<v2::Site>| {
        let versions = conversion.crd().unwrap().spec.versions;
        let mut names: Vec<_> =
            versions.iter().map(|version| format!("{} {}", version.name, version.storage)).collect();
        names.sort();
        names
    };
    assert_eq!(stored(conversion()), ["v1 false", "v2 true", "v3 false"]);
    assert_eq!(stored(conversion().stored("v1")), ["v1 true", "v2 false", "v3 false"]);
}

/// A list is converted in one call, and a failure is reported with its reason.
#[tokio::test]
async fn reviews_are_answered() {
    let webhooks = Webhooks::new(Vec::new(), vec![conversion().erase()], Metrics::new()).unwrap();
    let answer = async |objects: Value, version: &str| {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": { "uid": "r", "desiredAPIVersion": version, "objects": objects },
        });
        let request = Request::post("/convert").header("content-type", "application/json");
        let response = webhooks.answer(request.body(Bytes::from(review.to_string())).unwrap()).await;
        assert_eq!(response.status(), 200);
        let review: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!((&review["kind"], &review["response"]["uid"]), (&json!("ConversionReview"), &json!("r")));
        review["response"].clone()
    };
    let both = json!([site("v1", json!({ "replicas": 1 })), site("v2", json!({ "servers": 2 }))]);
    let response = answer(both, "example.com/v2").await;
    let wanted = json!([site("v2", json!({ "servers": 1 })), site("v2", json!({ "servers": 2 }))]);
    assert_eq!((&response["result"]["status"], &response["convertedObjects"]), (&json!("Success"), &wanted));
    let mixed = json!([site("v1", json!({ "replicas": 1 })), site("v1", json!({ "replicas": -1 }))]);
    let response = answer(mixed, "example.com/v2").await;
    assert_eq!(response["result"]["status"], "Failure");
    let message = response["result"]["message"].as_str().unwrap();
    assert!(message.ends_with("from v1 to v2: replicas are negative"), "{message}");
    let response = answer(json!([{ "apiVersion": "other.com/v1", "kind": "Other" }]), "other.com/v2").await;
    assert_eq!(response["result"]["message"], "Other of other.com has no conversion here");
    let conversions = webhooks.conversions(&Endpoint::service("ops", "op"));
    assert_eq!(conversions[0].0, "sites.example.com");
    assert_eq!(conversions[0].1["webhook"]["clientConfig"]["service"]["path"], "/convert");
}
