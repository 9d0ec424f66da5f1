//! A kind of two versions, for tests of conversions.

use evenkeel_runtime::Result;
use evenkeel_runtime::webhook::{Conversion, Convertible};

pub(crate) mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// The first version of a site.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
    #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct SiteSpec {
        pub(crate) replicas: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) nick_name: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub(crate) hosts: Vec<String>,
    }
}

pub(crate) mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// The servers of a site.
    #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
    pub(crate) struct Servers {
        pub(crate) count: i32,
    }

    /// The second version of a site.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
    #[kube(group = "example.com", version = "v2", kind = "Site", namespaced)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct SiteSpec {
        pub(crate) servers: Servers,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) nick_name: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub(crate) hosts: Vec<String>,
    }
}

impl Convertible for v1::Site {
    type Hub = v2::Site;

    fn into_hub(self) -> Result<v2::Site> {
        let v1::SiteSpec { replicas, nick_name, hosts } = self.spec;
        let spec = v2::SiteSpec { servers: v2::Servers { count: replicas }, nick_name, hosts };
        Ok(v2::Site { metadata: self.metadata, spec })
    }

    fn from_hub(hub: v2::Site) -> Result<Self> {
        let v2::SiteSpec { servers, nick_name, hosts } = hub.spec;
        let spec = v1::SiteSpec { replicas: servers.count, nick_name, hosts };
        Ok(Self { metadata: hub.metadata, spec })
    }
}

/// The versions of a site.
pub(crate) fn conversion() -> Conversion<v2::Site> {
    Conversion::new().spoke::<v1::Site>()
}
