//! Discovery of every resource that the API server lists.
//!
//! The discovery documents are long and seldom change, and the clusters of a test process serve the same ones. So a parsed
//! document is cached together with its text.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::ACCEPT;
use kube::Client;
use kube::core::{ApiResource, GroupVersion, Version};
use kube::discovery::verbs;
use parking_lot::Mutex;
use serde::Deserialize;

use super::Resource;

/// The media type of aggregated discovery, with all versions in one document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// How many documents are cached: those that the tests of one process alternate between, at a few hundred kilobytes each.
const CACHE_MAX: usize = 8;

/// The discovery documents of a server, and the parsed result.
struct CachedDiscovery {
    core: String,
    groups: String,
    listed: Arc<[Resource]>,
}

/// The documents that were used last, newest first.
static CACHE: Mutex<Vec<CachedDiscovery>> = Mutex::new(Vec::new());

/// Returns every resource of the server in its most stable version, sorted by group and plural.
pub(crate) async fn discover(client: &Client) -> Result<Arc<[Resource]>, kube::Error> {
    let (core, groups) = (list(client, "/api").await?, list(client, "/apis").await?);
    if let Some(listed) = kept(&core, &groups) {
        return Ok(listed);
    }
    let listed = read(&core, &groups).map_err(kube::Error::SerdeError)?;
    let mut kept = CACHE.lock();
    kept.truncate(CACHE_MAX - 1);
    kept.insert(0, CachedDiscovery { core, groups, listed: listed.clone() });
    Ok(listed)
}

async fn list(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = http::Request::get(path).header(ACCEPT, AGGREGATED).body(Vec::new());
    client.request_text(request.map_err(kube::Error::HttpError)?).await
}

fn kept(core: &str, groups: &str) -> Option<Arc<[Resource]>> {
    let mut kept = CACHE.lock();
    let at = kept.iter().position(|read| read.core == core && read.groups == groups)?;
    kept[..=at].rotate_right(1);
    Some(kept[0].listed.clone())
}

fn read(core: &str, groups: &str) -> serde_json::Result<Arc<[Resource]>> {
    let (core, groups): (List, List) = (serde_json::from_str(core)?, serde_json::from_str(groups)?);
    let mut stable: BTreeMap<(String, String), (Reverse<_>, Resource)> = BTreeMap::new();
    for group in core.items.iter().chain(&groups.items) {
        for version in &group.versions {
            for listed in &version.resources {
                let rank = Reverse(Version::parse(&version.version).priority());
                let resource = listed.resource(&group.metadata.name, &version.version);
                match stable.get(&resource.key()) {
                    Some((known, _)) if *known <= rank => {}
                    _ => drop(stable.insert(resource.key(), (rank, resource))),
                }
            }
        }
    }
    Ok(stable.into_values().map(|(_, resource)| resource).collect())
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<Served>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    /// The name of the group; empty for the core group.
    #[serde(default)]
    name: String,
}

/// A version of a group.
#[derive(Deserialize)]
struct Served {
    version: String,
    #[serde(default)]
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    resource: String,
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

impl Listed {
    fn resource(&self, group: &str, version: &str) -> Resource {
        let can = |verb: &str| self.verbs.iter().any(|it| it == verb);
        // Events are too many to watch, and they have no owners.
        let event = self.resource == "events";
        Resource {
            namespaced: self.scope == "Namespaced",
            collectable: can(verbs::LIST) && can(verbs::DELETE_COLLECTION),
            watchable: !event && can(verbs::LIST) && can(verbs::WATCH) && can(verbs::DELETE),
            api: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: GroupVersion::gv(group, version).api_version(),
                kind: self.response_kind.kind.clone(),
                plural: self.resource.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_stable_version_of_a_kind_is_taken_whatever_the_order() {
        let core = r#"{"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
            {"resource": "events", "responseKind": {"kind": "Event"}, "scope": "Namespaced",
             "verbs": ["list", "watch", "delete"]},
            {"resource": "nodes", "responseKind": {"kind": "Node"}, "scope": "Cluster",
             "verbs": ["list", "watch", "delete", "deletecollection"],
             "subresources": [{"subresource": "status", "verbs": ["get"]}]}]}]}]}"#;
        let version = |name: &str| {
            format!(
                r#"{{"version": "{name}", "resources": [{{"resource": "sites", "responseKind":
                    {{"group": "example.com", "kind": "Site"}}, "scope": "Namespaced", "verbs": ["get"]}}]}}"#
            )
        };
        let groups = format!(
            r#"{{"items": [{{"metadata": {{"name": "example.com"}}, "versions": [{}, {}, {}]}}]}}"#,
            version("v1beta1"),
            version("v2"),
            version("v1alpha1")
        );
        let listed = read(core, &groups).unwrap();
        let shown: Vec<_> = listed
            .iter()
            .map(|it| {
                let flags = (it.namespaced, it.collectable, it.watchable);
                format!("{} {} {flags:?}", it.api.api_version, it.api.plural)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "v1 events (true, false, false)",
                "v1 nodes (false, true, true)",
                "example.com/v2 sites (true, false, false)"
            ]
        );
    }

    #[test]
    fn a_text_that_was_read_lately_is_kept() {
        let keep = |core: &str| {
            let mut kept = CACHE.lock();
            kept.truncate(CACHE_MAX - 1);
            kept.insert(
                0,
                CachedDiscovery { core: core.to_owned(), groups: String::new(), listed: Arc::new([]) },
            );
        };
        for number in 0..CACHE_MAX {
            keep(&number.to_string());
            assert!(kept("0", "").is_some());
        }
        keep("last");
        assert!(kept("0", "").is_some() && kept("1", "").is_none());
    }
}
