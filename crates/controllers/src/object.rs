//! One type for the objects of all kinds: metadata, and the other fields as a shared tree.
//!
//! Otherwise, controllers of some thirty kinds would compile a cache, an informer, a queue, a decoder and an encoder
//! for each of them. An [`Object`] is decoded without knowing its kind, readers look up only the fields that they use,
//! and fields unknown to this version of Kubernetes are kept.

mod unseen;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use evenkeel_runtime::{ContextError, Ctx, Objects, Request, ResultExt, Source};
use evenkeel_tree::{Text, Tree, WithoutNulls};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, Time,
};
use kube::Resource;
use kube::core::params::Patch;
use kube::core::{DynamicResourceScope, Selector};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// A kind of object, with the names that requests and owner references use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

impl Kind {
    /// All objects of this kind.
    pub(crate) fn source(&'static self) -> Source<Object> {
        Source::of(self)
    }

    /// Returns the `apiVersion` of this kind.
    pub(crate) fn api_version(&'static self) -> String {
        Object::api_version(&self).into_owned()
    }

    /// Whether an owner reference names an object of this kind, in any version.
    pub(crate) fn is_of(&self, owner: &OwnerReference) -> bool {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        self.kind == owner.kind && self.group == group
    }
}

/// An object of any kind. It dereferences to the tree of its fields other than `apiVersion`, `kind` and `metadata`.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Object {
    /// The metadata without managed fields, which no controller reads.
    pub(crate) metadata: ObjectMeta,
    fields: Tree,
}

impl Object {
    pub(crate) fn new(metadata: ObjectMeta, fields: Tree) -> Self {
        Self { metadata, fields }
    }

    /// Returns the name, or an empty string if the object has none yet.
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace, or an empty string for a cluster-scoped object.
    pub(crate) fn in_namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the value of an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether the object is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Reads typical fields of Kubernetes objects from a tree: times, label selectors, conditions.
pub(crate) trait Fields {
    /// Returns the time at a path.
    fn time(&self, path: &str) -> Option<Timestamp>;

    /// Returns the map of strings at a path, such as labels, or an empty map.
    fn text_map(&self, path: &str) -> BTreeMap<String, String>;

    /// Returns the label selector at a path.
    fn label_selector(&self, path: &str) -> Option<LabelSelector>;

    /// Returns this as a label selector.
    fn as_label_selector(&self) -> Option<LabelSelector>;

    /// Returns the condition of a type in `conditions`.
    fn condition(&self, kind: &str) -> Option<&Tree>;
}

impl Fields for Tree {
    fn time(&self, path: &str) -> Option<Timestamp> {
        self.str(path)?.parse().ok()
    }

    fn text_map(&self, path: &str) -> BTreeMap<String, String> {
        let text = |(key, value): (&str, &Tree)| Some((key.to_owned(), value.as_str()?.to_owned()));
        self.entries(path).filter_map(text).collect()
    }

    fn label_selector(&self, path: &str) -> Option<LabelSelector> {
        self.at(path).as_label_selector()
    }

    fn as_label_selector(&self) -> Option<LabelSelector> {
        self.as_map()?;
        let requirement = |it: &Tree| LabelSelectorRequirement {
            key: it.str("key").unwrap_or_default().to_owned(),
            operator: it.str("operator").unwrap_or_default().to_owned(),
            values: it.has("values").then(|| it.texts("values").map(str::to_owned).collect()),
        };
        let requirements = self.list("matchExpressions");
        Some(LabelSelector {
            match_labels: self.has("matchLabels").then(|| self.text_map("matchLabels")),
            match_expressions: (!requirements.is_empty())
                .then(|| requirements.iter().map(requirement).collect()),
        })
    }

    fn condition(&self, kind: &str) -> Option<&Tree> {
        self.list("conditions").iter().find(|condition| condition.is("type", kind))
    }
}

/// Returns a time as fields store it, in whole seconds.
pub(crate) fn time(at: Timestamp) -> Tree {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// Compiles a label selector. Returns `None` if it is invalid.
pub(crate) fn selector(selector: LabelSelector) -> Option<Selector> {
    selector.try_into().ok()
}

/// Gives access to the objects of one kind.
pub(crate) trait OfKind {
    /// Returns the client for the objects of a kind.
    fn kind(&self, kind: &'static Kind) -> Objects<'_, Object>;
}

impl<S> OfKind for Ctx<S> {
    fn kind(&self, kind: &'static Kind) -> Objects<'_, Object> {
        self.objects(kind)
    }
}

/// Writes the status of an object as a merge patch of the difference, if it differs.
pub(crate) async fn write_status<S>(
    ctx: &Ctx<S>,
    kind: &'static Kind,
    object: &Object,
    status: &Tree,
) -> Result<(), ContextError> {
    let Some(difference) = difference(object.at("status"), status) else { return Ok(()) };
    let patch = Patch::Merge(json!({ "status": difference }));
    ctx.kind(kind).patch_subresource_unread("status", &Request::of(object), &patch).await?;
    Ok(())
}

/// Writes the status of an object as [`write_status`] does, unless the object is gone, whoever has its name now. Returns
/// whether the object was there.
pub(crate) async fn write_status_of_same<S>(
    ctx: &Ctx<S>,
    kind: &'static Kind,
    object: &Object,
    status: &Tree,
) -> Result<bool, ContextError> {
    let Some(difference) = difference(object.at("status"), status) else { return Ok(true) };
    let patch = Patch::Merge(json!({"metadata": {"uid": object.metadata.uid}, "status": difference}));
    let written = ctx.kind(kind).patch_subresource_unread("status", &Request::of(object), &patch).await;
    Ok(written.ignore_not_found()?.is_some())
}

/// Whether [`write_status`] would write.
pub(crate) fn differs(current: &Tree, wanted: &Tree) -> bool {
    difference(current, wanted).is_some()
}

/// Returns the merge patch from one tree to another, or `None` if they are equal. Null removes a member in a merge
/// patch, so null and absent count as equal.
fn difference(current: &Tree, wanted: &Tree) -> Option<Value> {
    match (current, wanted) {
        (Tree::Map(current), Tree::Map(wanted)) => {
            let mut patch = serde_json::Map::new();
            let is_gone = |name: &str| wanted.get(name).is_none_or(Tree::is_null);
            for (name, _) in current.iter().filter(|(name, value)| !value.is_null() && is_gone(name)) {
                patch.insert(name.to_owned(), Value::Null);
            }
            for (name, value) in wanted.iter().filter(|(_, value)| !value.is_null()) {
                if let Some(change) = difference(current.get(name).unwrap_or(&Tree::Null), value) {
                    patch.insert(name.to_owned(), change);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (current, wanted) if current == wanted => None,
        (_, wanted) => Some(wanted.to_value()),
    }
}

impl Deref for Object {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.fields
    }
}

impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut Tree {
        &mut self.fields
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {:?}", self.in_namespace(), self.name(), self.fields)
    }
}

impl Resource for Object {
    type DynamicType = &'static Kind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &&'static Kind) -> Cow<'static, str> {
        kind.kind.into()
    }

    fn group(kind: &&'static Kind) -> Cow<'static, str> {
        kind.group.into()
    }

    fn version(kind: &&'static Kind) -> Cow<'static, str> {
        kind.version.into()
    }

    fn plural(kind: &&'static Kind) -> Cow<'static, str> {
        kind.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("metadata", &self.metadata)?;
        self.fields.members().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut metadata = ObjectMeta::default();
        let mut fields: Vec<(Text, Tree)> = Vec::new();
        let mut kind: Option<Text> = None;
        while let Some(name) = map.next_key::<Text>()? {
            match name.as_str() {
                "metadata" => metadata = map.next_value::<Metadata>()?.into(),
                "kind" => kind = map.next_value()?,
                "apiVersion" => {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
                _ => fields.push((name, map.next_value::<WithoutNulls>()?.0)),
            }
        }
        let fields = unseen::without_unseen(kind.as_ref().map(Text::as_str), Tree::map(fields));
        Ok(Object { metadata, fields })
    }
}

/// The metadata of an object, without its managed fields, which are often longer than the rest of the object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl From<Metadata> for ObjectMeta {
    fn from(it: Metadata) -> Self {
        Self {
            annotations: it.annotations,
            creation_timestamp: it.creation_timestamp,
            deletion_grace_period_seconds: it.deletion_grace_period_seconds,
            deletion_timestamp: it.deletion_timestamp,
            finalizers: it.finalizers,
            generate_name: it.generate_name,
            generation: it.generation,
            labels: it.labels,
            name: it.name,
            namespace: it.namespace,
            owner_references: it.owner_references,
            resource_version: it.resource_version,
            uid: it.uid,
            ..Self::default()
        }
    }
}

/// Reads an object from JSON, for tests.
#[cfg(test)]
pub(crate) fn object(value: serde_json::Value) -> Object {
    serde_json::from_value(value).expect("the test writes an object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_written_as_it_was_read() {
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
            "spec": {"nodeName": "n", "unheardOf": 1.5, "priority": null}});
        let pod: Object = serde_json::from_value(value).unwrap();
        let written = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "unheardOf": 1.5}});
        assert_eq!(serde_json::to_value(&pod).unwrap(), written);
        assert_eq!((pod.name(), pod.str("spec/nodeName")), ("a", Some("n")));
    }

    #[test]
    fn the_difference_is_the_least_merge_patch() {
        let check = |current: Value, wanted: Value, patch: Option<Value>| {
            assert_eq!(difference(&current.into(), &wanted.into()), patch);
        };
        let current = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1], "gone": true});
        check(current.clone(), current.clone(), None);
        let wanted = json!({"a": 1, "b": {"c": 2, "d": 4}, "list": [1, 2], "none": null});
        check(current, wanted, Some(json!({"b": {"d": 4}, "list": [1, 2], "gone": null})));
        check(json!({"a": null}), json!({}), None);
        check(Value::Null, json!({"x": {"y": 1}}), Some(json!({"x": {"y": 1}})));
    }

    #[test]
    fn a_selector_is_read_as_it_is_written() {
        let tree = Tree::from(json!({"selector": {"matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}, {"key": "e", "operator": "Exists"}]}}));
        let selector = tree.label_selector("selector").unwrap();
        assert_eq!(Tree::from(serde_json::to_value(selector).unwrap()), tree.at("selector").clone());
        assert_eq!(tree.label_selector("other"), None);
    }
}
