//! The history of a StatefulSet or DaemonSet: its templates as ControllerRevisions, with numbers and hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_runtime::{Ctx, Result};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::params::Patch;
use serde_json::{Value, json};

use crate::openapi_compat::{self, into_field};
use crate::pod_template;

/// The label of a ControllerRevision with the hash of its data.
pub(crate) const HASH: &str = "controller.kubernetes.io/hash";

/// The label of a pod with its revision.
pub(crate) const POD_REVISION: &str = "controller-revision-hash";

/// The longest prefix of a name before the hash, so that the name stays valid.
const PREFIX_MAX: usize = 223;

/// The object that the history belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Parent<'a> {
    /// The owner reference that makes the parent the controller of its revisions.
    pub(crate) owner: OwnerReference,
    /// The parent's namespace.
    pub(crate) namespace: Option<String>,
    /// The parent's annotations, which are copied to each revision.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The present template.
    pub(crate) template: &'a PodTemplateSpec,
    /// The collision count: how often a name was taken.
    pub(crate) collisions: Option<i32>,
}

/// How the present template becomes the newest revision.
#[derive(Clone, Debug)]
enum Newest {
    /// The newest revision has the present template.
    Is(Arc<ControllerRevision>),
    /// An older revision has the present template and must get this number. This is a rollback.
    Renumber(Arc<ControllerRevision>, i64),
    /// No revision has the present template: create this one.
    Create(Box<ControllerRevision>),
}

/// Finds the revision of the present template.
fn newest(parent: &Parent<'_>, revisions: &[Arc<ControllerRevision>]) -> Newest {
    let next = 1 + revisions.iter().map(|revision| number(revision)).max().unwrap_or(0);
    let data = data(parent.template);
    let last = revisions.iter().max_by_key(|revision| (number(revision), &revision.metadata.name));
    let mut equal: Vec<_> = revisions.iter().filter(|revision| holds(revision, &data)).collect();
    equal.sort_by_key(|revision| (number(revision), &revision.metadata.name));
    match (equal.last(), last) {
        (Some(found), Some(last)) if holds(last, &data) || found.metadata.uid == last.metadata.uid => {
            Newest::Is(Arc::clone(last))
        }
        (Some(found), _) => Newest::Renumber(Arc::clone(found), next),
        (None, _) => Newest::Create(Box::new(create(parent, data, next))),
    }
}

/// Creates or renumbers the revision of the present template if necessary, and returns it. `None` after a collision of
/// names.
pub(crate) async fn sync<S>(
    ctx: &Ctx<S>,
    parent: &Parent<'_>,
    revisions: &[Arc<ControllerRevision>],
) -> Result<Option<Arc<ControllerRevision>>> {
    match newest(parent, revisions) {
        Newest::Is(revision) => Ok(Some(revision)),
        Newest::Renumber(revision, number) => {
            ctx.patch(&revision, &Patch::Merge(json!({"revision": number}))).await?;
            Ok(Some(revision))
        }
        Newest::Create(revision) => create_or_find(ctx, *revision).await,
    }
}

/// Creates a revision. If its name is taken, returns the existing revision, provided that it has the same data.
async fn create_or_find<S>(
    ctx: &Ctx<S>,
    revision: ControllerRevision,
) -> Result<Option<Arc<ControllerRevision>>> {
    let (name, data) = (revision.metadata.name.clone().unwrap_or_default(), revision.data.clone());
    match ctx.create(revision).await {
        Ok(created) => Ok(Some(Arc::new(created))),
        Err(error) if error.is_already_exists() => {
            let found = ctx.fetch::<ControllerRevision>(&name).await?;
            Ok(found.filter(|found| found.data == data).map(Arc::new))
        }
        Err(error) => Err(error.into()),
    }
}

fn number(revision: &ControllerRevision) -> i64 {
    openapi_compat::i64_or_zero(revision.revision)
}

fn held(revision: &ControllerRevision) -> Option<&RawExtension> {
    (&revision.data).into()
}

fn holds(revision: &ControllerRevision, data: &Value) -> bool {
    held(revision).is_some_and(|held| held.0 == *data)
}

/// Returns the patch that restores the template, in the form that `kubectl rollout undo` sends.
fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.insert("$patch".to_owned(), json!("replace"));
    }
    json!({"spec": {"template": template}})
}

fn create(parent: &Parent<'_>, data: Value, revision: i64) -> ControllerRevision {
    let hash = pod_template::hash(&data, parent.collisions.filter(|count| *count > 0));
    let mut labels =
        parent.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let prefix = &parent.owner.name[..parent.owner.name.len().min(PREFIX_MAX)];
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: parent.namespace.clone(),
            labels: Some(labels),
            annotations: Some(parent.annotations.clone()).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![parent.owner.clone()]),
            ..ObjectMeta::default()
        },
        data: into_field(RawExtension(data)),
        revision: into_field(revision),
    }
}

/// Returns the template of a revision.
pub(crate) fn restore(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = held(revision)?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Returns the revisions to delete: the oldest ones beyond `limit` that are not `live`.
pub(crate) fn surplus(
    revisions: &[Arc<ControllerRevision>],
    live: &BTreeSet<String>,
    limit: Option<i32>,
) -> Vec<Arc<ControllerRevision>> {
    let is_dead = |revision: &&Arc<ControllerRevision>| {
        revision.metadata.name.as_ref().is_some_and(|name| !live.contains(name))
    };
    let mut dead: Vec<_> = revisions.iter().filter(is_dead).cloned().collect();
    dead.sort_by_key(|revision| (number(revision), revision.metadata.name.clone()));
    let keep = usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX);
    dead.truncate(dead.len().saturating_sub(keep));
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]},
        }))
        .unwrap()
    }

    fn parent(template: &PodTemplateSpec) -> Parent<'_> {
        let owner =
            OwnerReference { name: "db".to_owned(), uid: "u".to_owned(), ..OwnerReference::default() };
        Parent { owner, namespace: None, annotations: BTreeMap::new(), template, collisions: None }
    }

    fn made(template: &PodTemplateSpec, revisions: &[Arc<ControllerRevision>]) -> Arc<ControllerRevision> {
        match newest(&parent(template), revisions) {
            Newest::Create(mut revision) => {
                revision.metadata.uid = revision.metadata.name.clone();
                Arc::new(*revision)
            }
            other => panic!("expected a new revision, not {other:?}"),
        }
    }

    #[test]
    fn a_template_comes_back_as_it_was() {
        let one = template("i:1");
        assert_eq!(restore(&made(&one, &[])), Some(one));
    }

    #[test]
    fn going_back_renumbers_the_old_revision() {
        let (one, two) = (template("i:1"), template("i:2"));
        let first = made(&one, &[]);
        let second = made(&two, std::slice::from_ref(&first));
        assert_eq!((number(&first), number(&second)), (1, 2));
        let history = [first.clone(), second.clone()];
        assert!(matches!(newest(&parent(&two), &history), Newest::Is(is) if number(&is) == 2));
        assert!(
            matches!(newest(&parent(&one), &history), Newest::Renumber(is, 3) if is.metadata.uid == first.metadata.uid)
        );
    }

    #[test]
    fn live_revisions_stay_beyond_the_limit() {
        let (one, two, three) = (template("i:1"), template("i:2"), template("i:3"));
        let first = made(&one, &[]);
        let second = made(&two, std::slice::from_ref(&first));
        let third = made(&three, &[first.clone(), second.clone()]);
        let live = BTreeSet::from([first.metadata.name.clone().unwrap()]);
        let gone = surplus(&[first, second.clone(), third], &live, Some(1));
        assert_eq!(gone, [second]);
    }
}
