//! The history of a StatefulSet or DaemonSet: its templates as ControllerRevisions, with numbers and hashes.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_runtime::{Ctx, Request, Result};
use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::params::Patch;
use serde_json::json;

use crate::controller_ref::controller_reference;
use crate::kinds::{CONTROLLER_REVISION, ControllerRevision, DAEMON_SET};
use crate::object::{Fields, Kind, Object, OfKind};
use crate::pod_template;

/// The label of a StatefulSet's ControllerRevision with the hash of its data.
const HASH: &str = "controller.kubernetes.io/hash";

/// The label of a pod with its revision, and of a DaemonSet's ControllerRevision with the hash of its data.
pub(crate) const POD_REVISION: &str = "controller-revision-hash";

/// The longest prefix of a name before the hash, so that the name stays valid.
const PREFIX_MAX: usize = 223;

/// The object that the history belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Parent<'a> {
    /// The owner reference that makes the parent the controller of its revisions.
    owner: OwnerReference,
    /// The namespace and the annotations of the parent, which are copied to each revision.
    metadata: &'a ObjectMeta,
    /// The present template.
    template: &'a Tree,
    /// The label of its revisions with the hash of their data.
    hash_label: &'static str,
    /// The collision count: how often a name was taken.
    collisions: Option<i32>,
}

impl<'a> Parent<'a> {
    /// Makes the history of a parent whose template is in `spec.template`.
    pub(crate) fn new(kind: &'static Kind, parent: &'a Object) -> Self {
        Self {
            owner: controller_reference(kind, parent),
            metadata: &parent.metadata,
            template: parent.at("spec/template"),
            hash_label: if *kind == DAEMON_SET { POD_REVISION } else { HASH },
            collisions: parent.i32("status/collisionCount"),
        }
    }
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
    let last = revisions.iter().max_by_key(|revision| (number(revision), revision.name()));
    let mut equal: Vec<_> = revisions.iter().filter(|revision| *revision.at("data") == data).collect();
    equal.sort_by_key(|revision| (number(revision), revision.name()));
    match (equal.last(), last) {
        (Some(found), Some(last)) if *last.at("data") == data || found.metadata.uid == last.metadata.uid => {
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
            let patch = Patch::Merge(json!({"revision": number}));
            ctx.kind(&CONTROLLER_REVISION).patch(&Request::of(&*revision), &patch).await?;
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
    let revisions = ctx.kind(&CONTROLLER_REVISION);
    let (key, data) = (Request::of(&revision), revision.at("data").clone());
    match revisions.create(revision).await {
        Ok(created) => Ok(Some(Arc::new(created))),
        Err(error) if error.is_already_exists() => {
            let found = revisions.fetch(&key).await?;
            Ok(found.filter(|found| *found.at("data") == data).map(Arc::new))
        }
        Err(error) => Err(error.into()),
    }
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.i64("revision").unwrap_or(0)
}

/// Returns the patch that restores the template, in the form that `kubectl rollout undo` sends.
fn data(template: &Tree) -> Tree {
    let mut template = template.clone();
    template.set("$patch", "replace");
    tree!({"spec": tree!({"template": template})})
}

fn create(parent: &Parent<'_>, data: Tree, revision: i64) -> ControllerRevision {
    let hash = pod_template::hash(&data, parent.collisions.filter(|count| *count > 0));
    let mut labels = parent.template.text_map("metadata/labels");
    labels.insert(parent.hash_label.to_owned(), hash.clone());
    let prefix = &parent.owner.name[..parent.owner.name.len().min(PREFIX_MAX)];
    let metadata = ObjectMeta {
        name: Some(format!("{prefix}-{hash}")),
        namespace: parent.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: parent.metadata.annotations.clone().filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![parent.owner.clone()]),
        ..ObjectMeta::default()
    };
    ControllerRevision::new(metadata, tree!({"data": data, "revision": revision}))
}

/// Returns the hash of the data of a DaemonSet's revision. Earlier versions of Evenkeel wrote it to [`HASH`], the label
/// of StatefulSets.
pub(crate) fn hash_of(revision: &ControllerRevision) -> Option<&str> {
    revision.label(POD_REVISION).or_else(|| revision.label(HASH))
}

/// Returns the template of a revision.
pub(crate) fn restore(revision: &ControllerRevision) -> Option<Tree> {
    let mut template = revision.at("data/spec/template").clone();
    template.as_map()?;
    template.set("$patch", Tree::Null);
    Some(template)
}

/// Deletes the oldest revisions of a parent beyond its history limit, except those that are `live`.
pub(crate) async fn clean_up<S>(
    ctx: &Ctx<S>,
    parent: &Object,
    revisions: &[Arc<ControllerRevision>],
    live: &BTreeSet<String>,
) -> Result<()> {
    for revision in surplus(revisions, live, parent.i32("spec/revisionHistoryLimit")) {
        ctx.kind(&CONTROLLER_REVISION).delete(&revision).await?;
    }
    Ok(())
}

/// Returns the revisions to delete: the oldest ones beyond `limit` that are not `live`.
fn surplus(
    revisions: &[Arc<ControllerRevision>],
    live: &BTreeSet<String>,
    limit: Option<i32>,
) -> Vec<Arc<ControllerRevision>> {
    let is_dead = |revision: &&Arc<ControllerRevision>| !live.contains(revision.name());
    let mut dead: Vec<_> = revisions.iter().filter(is_dead).cloned().collect();
    dead.sort_by(|a, b| (number(a), a.name()).cmp(&(number(b), b.name())));
    let keep = usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX);
    dead.truncate(dead.len().saturating_sub(keep));
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(image: &str) -> Object {
        crate::object::object(json!({"metadata": {"name": "db", "uid": "u"}, "spec": {"template": {
            "metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]},
        }}}))
    }

    fn parent(set: &Object) -> Parent<'_> {
        Parent::new(&crate::kinds::STATEFUL_SET, set)
    }

    fn made(set: &Object, revisions: &[Arc<ControllerRevision>]) -> Arc<ControllerRevision> {
        match newest(&parent(set), revisions) {
            Newest::Create(mut revision) => {
                revision.metadata.uid = revision.metadata.name.clone();
                Arc::new(*revision)
            }
            other => panic!("expected a new revision, not {other:?}"),
        }
    }

    #[test]
    fn a_template_comes_back_as_it_was() {
        let one = set("i:1");
        assert_eq!(restore(&made(&one, &[])).as_ref(), Some(one.at("spec/template")));
    }

    #[test]
    fn going_back_renumbers_the_old_revision() {
        let (one, two) = (set("i:1"), set("i:2"));
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
        let (one, two, three) = (set("i:1"), set("i:2"), set("i:3"));
        let first = made(&one, &[]);
        let second = made(&two, std::slice::from_ref(&first));
        let third = made(&three, &[first.clone(), second.clone()]);
        let live = BTreeSet::from([first.metadata.name.clone().unwrap()]);
        let gone = surplus(&[first, second.clone(), third], &live, Some(1));
        assert_eq!(gone, [second]);
    }
}
