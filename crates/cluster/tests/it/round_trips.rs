//! Conversions that lose something, and one that does not.

use evenkeel_cluster::testing::{self, Change};
use evenkeel_runtime::webhook::{Conversion, Convertible};
use evenkeel_runtime::{Error, Result};
use serde_json::json;

use crate::sites;

/// The old version of a kind whose conversions are wrong.
mod old {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// A host of a site.
    #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug)]
    pub(super) struct Host {
        pub(super) name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) port: Option<u16>,
    }

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Wrong", namespaced)]
    pub(super) struct WrongSpec {
        pub(super) replicas: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) title: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub(super) hosts: Vec<Host>,
        #[schemars(range(min = 1, max = 9))]
        pub(super) level: i32,
    }
}

/// The new version of it, in which hosts have no ports.
mod new {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v2", kind = "Wrong", namespaced)]
    pub(super) struct WrongSpec {
        pub(super) replicas: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) title: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub(super) hosts: Vec<String>,
        #[schemars(range(min = 0, max = 9))]
        pub(super) level: i32,
    }
}

impl Convertible for old::Wrong {
    type Hub = new::Wrong;

    fn into_hub(self) -> Result<new::Wrong> {
        let old::WrongSpec { replicas, title, hosts, level } = self.spec;
        let hosts = hosts.into_iter().map(|host| host.name).collect();
        Ok(new::Wrong { metadata: self.metadata, spec: new::WrongSpec { replicas, title, hosts, level } })
    }

    fn from_hub(hub: new::Wrong) -> Result<Self> {
        let new::WrongSpec { replicas, title, hosts, level } = hub.spec;
        if level == 0 {
            return Err(Error::message("the old version has no level 0"));
        }
        let hosts = hosts.into_iter().map(|name| old::Host { name, port: None }).collect();
        Ok(Self { metadata: hub.metadata, spec: old::WrongSpec { replicas, title, hosts, level } })
    }
}

fn wrong() -> Conversion<new::Wrong> {
    Conversion::new().spoke::<old::Wrong>()
}

#[test]
fn a_faithful_conversion_passes() {
    assert_eq!(testing::round_trips(&sites::conversion()), 200);
}

#[test]
fn a_lossy_conversion_is_found_and_shown_by_the_smallest_object() {
    let losses = testing::round_trip_losses(&wrong());
    let told: Vec<_> = losses.iter().map(|loss| (loss.version.as_str(), loss.field.as_str())).collect();
    assert_eq!(told, [("v2", ""), ("v1", "spec.hosts[0].port")], "{losses:#?}");

    let [failed, port] = &losses[..] else { panic!("{losses:#?}") };
    assert_eq!(port.change, Change::Lost);
    let (replicas, level) = (&port.before["spec"]["replicas"], &port.before["spec"]["level"]);
    let host = &port.before["spec"]["hosts"][0];
    assert!(host["port"].is_u64(), "{port}");
    let smallest = json!({
        "apiVersion": "example.com/v1", "kind": "Wrong",
        "metadata": {"name": "example", "namespace": "default"},
        "spec": {"replicas": replicas, "level": level, "hosts": [{"name": host["name"], "port": host["port"]}]},
    });
    assert_eq!(port.before, smallest, "nothing is left that could be left out");
    assert_eq!(port.after["spec"]["hosts"], json!([{"name": host["name"]}]));

    assert!(matches!(&failed.change, Change::Failed(why) if why.contains("no level 0")), "{failed}");
    assert_eq!(failed.before["spec"].as_object().map(serde_json::Map::len), Some(2), "{failed}");
}

#[test]
#[should_panic(
    expected = "v1 → v2 → v1 loses spec.hosts[0].port\n  before: {\"apiVersion\":\"example.com/v1\""
)]
fn a_lossy_conversion_fails_the_test() {
    testing::round_trips(&wrong());
}
