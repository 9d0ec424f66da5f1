//! What the cluster knows about an object: the object itself, what it owns, warnings about it, and owners that do not
//! exist. `evenkeel why` and the page explain an object from this.

use std::collections::BTreeSet;

use evenkeel_record::why::{Why, why};
use evenkeel_record::{Key, Record, why::Evidence};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// The built-in kinds in which descendants are searched: pods, and the kinds between a custom resource and its pods.
const OWNED: [(&str, &str, &str); 8] = [
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Pod"),
];

/// How many lists are requested at once.
const LISTS_AT_ONCE: usize = 8;

/// How many objects of one kind are read. Among so many descendants, one explains the state of their owner.
const LIST_MAX: u32 = 5000;

/// A kind that a cluster serves.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The names by which users call the kind, besides its kind and plural: the singular and short names.
    names: Vec<String>,
}

/// What the cluster knows about an object.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The object, if it exists.
    pub object: Option<Value>,
    /// What the object owns, directly or indirectly.
    pub descendants: Vec<Value>,
    /// The Events of type `Warning` about the object and its descendants, the newest last.
    pub events: Vec<Value>,
    /// The owners that the object names and that do not exist.
    pub missing_owners: Vec<String>,
}

impl Found {
    /// Explains the object in one line, from this and from a record if there is one.
    pub fn why(&self, key: &Key, record: Option<&Record>) -> Why {
        let evidence = Evidence {
            record,
            object: self.object.as_ref(),
            descendants: &self.descendants,
            events: &self.events,
            missing_owners: &self.missing_owners,
        };
        why(key, evidence)
    }
}

impl Kind {
    fn is_called(&self, name: &str) -> bool {
        let named = |own: &str| own.eq_ignore_ascii_case(name);
        if let Some((plural, group)) = name.split_once('.') {
            return self.resource.plural.eq_ignore_ascii_case(plural) && self.resource.group == group;
        }
        named(&self.resource.kind) || named(&self.resource.plural) || self.names.iter().any(|own| named(own))
    }

    fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    fn is_custom(&self) -> bool {
        self.resource.group.contains('.') && !self.resource.group.ends_with(".k8s.io")
    }
}

/// Returns the kinds that the cluster serves. A group whose server does not answer is left out.
///
/// # Errors
/// Fails if the cluster does not say which groups it serves.
pub async fn kinds(client: &Client) -> kube::Result<Vec<Kind>> {
    let mut found = Vec::new();
    add(&mut found, "v1", client.list_core_api_resources("v1").await?);
    for group in client.list_api_groups().await?.groups {
        // The preferred version comes first, but another version may have kinds that it lacks.
        let preferred = group.preferred_version.map(|version| version.group_version);
        let versions = group.versions.into_iter().map(|version| version.group_version);
        let others: Vec<String> = versions.filter(|version| Some(version) != preferred.as_ref()).collect();
        for version in preferred.into_iter().chain(others) {
            if let Ok(list) = client.list_api_group_resources(&version).await {
                add(&mut found, &version, list);
            }
        }
    }
    Ok(found)
}

/// Adds the kinds of one version of a group that are not known from another version.
fn add(found: &mut Vec<Kind>, group_version: &str, list: APIResourceList) {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    for resource in list.resources.into_iter().filter(|it| !it.name.contains('/')) {
        let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
        let kind = ApiResource::from_gvk_with_plural(&gvk, &resource.name);
        let mut names = resource.short_names.unwrap_or_default();
        names.push(resource.singular_name);
        let is_same = |it: &Kind| it.resource.group == kind.group && it.resource.plural == kind.plural;
        if !found.iter().any(is_same) {
            found.push(Kind { resource: kind, namespaced: resource.namespaced, names });
        }
    }
}

/// Returns the kind with this kind, plural, singular or short name. A plural may be followed by its group, as in
/// `sites.example.com`.
pub fn called<'k>(kinds: &'k [Kind], name: &str) -> Option<&'k Kind> {
    kinds.iter().find(|kind| kind.is_called(name))
}

/// Returns the key with the kind in its canonical spelling, and without a namespace if the kind has none.
pub fn canonical(key: &Key, kind: &Kind) -> Key {
    let namespace = key.namespace.clone().filter(|_| kind.namespaced);
    Key { kind: kind.resource.kind.clone(), namespace, name: key.name.clone() }
}

/// Finds what explains an object. What the user may not read is left out.
///
/// # Errors
/// Fails if the object itself cannot be read.
pub async fn find(client: &Client, kinds: &[Kind], kind: &Kind, key: &Key) -> kube::Result<Found> {
    let namespace = key.namespace.as_deref();
    let Some(object) = kind.api(client, namespace).get_opt(&key.name).await? else {
        return Ok(Found::default());
    };
    let mut found =
        Found { missing_owners: missing_owners(client, kinds, &object).await, ..Found::default() };
    let object = typed(object, kind);
    found.descendants = descendants(client, kinds, &object, namespace).await;
    let about: BTreeSet<&str> = found.descendants.iter().chain([&object]).filter_map(uid).collect();
    found.events = warnings(client, namespace, &about).await;
    found.object = Some(object);
    Ok(found)
}

/// Returns the objects that this object owns, directly or indirectly.
async fn descendants(client: &Client, kinds: &[Kind], object: &Value, namespace: Option<&str>) -> Vec<Value> {
    let built_in = |kind: &&Kind| {
        OWNED.iter().any(|(group, _, name)| kind.resource.group == *group && kind.resource.kind == *name)
    };
    let wanted = kinds.iter().filter(|kind| kind.namespaced && (kind.is_custom() || built_in(kind)));
    let lists: Vec<BoxFuture<'_, Vec<Value>>> =
        wanted.map(|kind| owned_of_kind(client, kind, namespace).boxed()).collect();
    let lists: Vec<Vec<Value>> = futures::stream::iter(lists).buffered(LISTS_AT_ONCE).collect().await;
    let mut owned: Vec<Value> = lists.into_iter().flatten().collect();
    let mut found = Vec::new();
    let mut owners: BTreeSet<String> = uid(object).map(str::to_owned).into_iter().collect();
    // Kinds may own each other in any order.
    loop {
        let (ours, others): (Vec<Value>, Vec<Value>) =
            owned.into_iter().partition(|it| is_owned_by(it, &owners));
        if ours.is_empty() {
            return found;
        }
        owners.extend(ours.iter().filter_map(uid).map(str::to_owned));
        found.extend(ours);
        owned = others;
    }
}

/// Returns the objects of a kind that have owners. A kind that the user may not list has none: the other kinds still help.
async fn owned_of_kind(client: &Client, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
    let params = ListParams::default().limit(LIST_MAX);
    let list = kind.api(client, namespace).list(&params).await.map(|list| list.items).unwrap_or_default();
    let owned = list.into_iter().filter(|it| it.metadata.owner_references.is_some());
    owned.map(|it| typed(it, kind)).collect()
}

fn is_owned_by(object: &Value, owners: &BTreeSet<String>) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter_map(|owner| owner["uid"].as_str()).any(|uid| owners.contains(uid))
}

/// Returns the owners of an object that do not exist in its namespace. An owner that the user may not read counts as
/// existing.
async fn missing_owners(client: &Client, kinds: &[Kind], object: &DynamicObject) -> Vec<String> {
    let mut missing = Vec::new();
    let namespace = object.metadata.namespace.as_deref();
    for owner in object.metadata.owner_references.iter().flatten() {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let of_kind = |it: &&Kind| it.resource.group == group && it.resource.kind == owner.kind;
        let name = format!("{} {}", owner.kind, owner.name);
        let Some(kind) = kinds.iter().find(of_kind) else {
            missing.push(name);
            continue;
        };
        if let Ok(found) = kind.api(client, namespace).get_metadata_opt(&owner.name).await
            && found.is_none_or(|found| found.metadata.uid.as_deref() != Some(&owner.uid))
        {
            missing.push(name);
        }
    }
    missing
}

/// Returns the Events of type `Warning` about these objects, the newest last.
async fn warnings(client: &Client, namespace: Option<&str>, about: &BTreeSet<&str>) -> Vec<Value> {
    let events = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Event"));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &events),
        None => Api::all_with(client.clone(), &events),
    };
    let params = ListParams::default().fields("type=Warning").limit(LIST_MAX);
    let list = api.list(&params).await.map(|list| list.items).unwrap_or_default();
    let mut found: Vec<Value> =
        list.into_iter().filter_map(|event| serde_json::to_value(event).ok()).collect();
    found.retain(|event| event["involvedObject"]["uid"].as_str().is_some_and(|uid| about.contains(uid)));
    found.sort_by_cached_key(|event| {
        let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
        let time =
            times.into_iter().find_map(Value::as_str).or(event["metadata"]["creationTimestamp"].as_str());
        time.unwrap_or_default().to_owned()
    });
    found
}

/// The object as JSON with its kind, which items of a list lack.
fn typed(object: DynamicObject, kind: &Kind) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["kind"] = kind.resource.kind.as_str().into();
    value
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}
