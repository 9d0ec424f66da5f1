//! Owner references, and checks for mistakes that the API server does not reject.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::Object;
use crate::object::{Scoping, scoping};

/// Why an owner reference cannot be set.
///
/// ```
/// use evenkeel_runtime::owner::{OwnerError, set_controller_reference};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// let unread = ConfigMap::default();
/// let error = set_controller_reference(&unread, &mut Secret::default()).unwrap_err();
/// assert!(matches!(error, OwnerError::Incomplete { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The object has another controller already.
    #[error("{object} is already controlled by {controller}")]
    AlreadyControlled {
        /// The namespace and name of the object.
        object: String,
        /// The controller of the object.
        controller: String,
    },
    /// The owner is in another namespace than the object.
    #[error("{object} cannot be owned across namespaces by {owner}")]
    CrossNamespace {
        /// The namespace and name of the object.
        object: String,
        /// The owner that was to be set.
        owner: String,
    },
    /// The object is cluster-scoped, and the owner is in a namespace.
    #[error("cluster-scoped {object} cannot be owned by {owner}, which lives in a namespace")]
    ClusterScoped {
        /// The namespace and name of the object.
        object: String,
        /// The owner that was to be set.
        owner: String,
    },
    /// The owner has no name or uid, because it was not read from a server.
    #[error("the owner of {object} has no name or uid")]
    Incomplete {
        /// The namespace and name of the object.
        object: String,
    },
}

/// An owner, with the parts that an owner reference needs.
///
/// ```
/// use evenkeel_runtime::Owner;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// let parent: ConfigMap = serde_json::from_value(serde_json::json!({
///     "metadata": { "name": "parent", "namespace": "a", "uid": "1" },
/// }))?;
/// let owner = Owner::of(&parent, &()).ok_or("it was read from a server")?;
/// let mut elsewhere = Secret::default();
/// elsewhere.metadata.name = Some("child".into());
/// elsewhere.metadata.namespace = Some("b".into());
/// let refused = owner.own(&mut elsewhere).unwrap_err();
/// assert_eq!(refused.to_string(), "b/child cannot be owned across namespaces by ConfigMap a/parent");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// The namespace of the owner; `None` for a cluster-scoped owner.
    pub namespace: Option<String>,
    /// The reference to the owner, without `controller` and `blockOwnerDeletion`.
    pub reference: OwnerReference,
}

impl Owner {
    /// This object as an owner. Returns `None` if the object was not read from a server.
    pub fn of<K: Object>(object: &K, dynamic: &K::DynamicType) -> Option<Self> {
        let reference = object.owner_ref(dynamic)?;
        Some(Self { namespace: object.meta().namespace.clone(), reference })
    }

    /// Makes this owner the controller of `object`, and lets a foreground deletion of the owner wait for `object`.
    pub fn control<C: Object>(&self, object: &mut C) -> Result<(), OwnerError> {
        self.check_scope(object)?;
        let other = object
            .meta()
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true) && owner.uid != self.reference.uid);
        if let Some(other) = other {
            let controller = format!("{} {}", other.kind, other.name);
            return Err(OwnerError::AlreadyControlled { object: describe(object), controller });
        }
        let reference = OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..self.reference.clone()
        };
        put(object, reference);
        Ok(())
    }

    /// Adds this owner to the owners of `object`.
    pub fn own<C: Object>(&self, object: &mut C) -> Result<(), OwnerError> {
        self.check_scope(object)?;
        put(object, self.reference.clone());
        Ok(())
    }

    fn check_scope<C: Object>(&self, object: &C) -> Result<(), OwnerError> {
        let Some(namespace) = &self.namespace else { return Ok(()) };
        let owner = || format!("{} {namespace}/{}", self.reference.kind, self.reference.name);
        match (&object.meta().namespace, scoping::<C>()) {
            (Some(at), _) if at == namespace => Ok(()),
            (Some(_), _) => Err(OwnerError::CrossNamespace { object: describe(object), owner: owner() }),
            (None, Scoping::Cluster) => {
                Err(OwnerError::ClusterScoped { object: describe(object), owner: owner() })
            }
            (None, Scoping::Namespaced | Scoping::Unknown) => Ok(()),
        }
    }
}

/// Makes `owner` the controller of `object`.
///
/// ```
/// use evenkeel_runtime::owner;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kube::Resource;
///
/// let mut parent = ConfigMap::default();
/// parent.meta_mut().name = Some("parent".into());
/// parent.meta_mut().uid = Some("1".into());
/// let mut child = Secret::default();
/// owner::set_controller_reference(&parent, &mut child)?;
/// assert_eq!(child.meta().owner_references.as_ref().unwrap()[0].controller, Some(true));
/// # Ok::<_, owner::OwnerError>(())
/// ```
pub fn set_controller_reference<P, C>(owner: &P, object: &mut C) -> Result<(), OwnerError>
where
    P: Object<DynamicType: Default>,
    C: Object,
{
    owner_of(owner, object)?.control(object)
}

/// Adds `owner` to the owners of `object`, beside its controller.
pub fn set_owner_reference<P, C>(owner: &P, object: &mut C) -> Result<(), OwnerError>
where
    P: Object<DynamicType: Default>,
    C: Object,
{
    owner_of(owner, object)?.own(object)
}

/// The controller of an object, if it has one.
pub fn controller_of<K: Object>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether an object has an owner with this uid.
pub fn is_owned_by<K: Object>(object: &K, uid: &str) -> bool {
    object.meta().owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

/// Removes the owner reference with this uid from an object. Returns whether there was one.
pub fn remove_owner_reference<K: Object>(object: &mut K, uid: &str) -> bool {
    let Some(owners) = &mut object.meta_mut().owner_references else { return false };
    let before = owners.len();
    owners.retain(|owner| owner.uid != uid);
    owners.len() != before
}

fn owner_of<P: Object<DynamicType: Default>, C: Object>(owner: &P, object: &C) -> Result<Owner, OwnerError> {
    Owner::of(owner, &P::DynamicType::default())
        .ok_or_else(|| OwnerError::Incomplete { object: describe(object) })
}

fn put<C: Object>(object: &mut C, reference: OwnerReference) {
    let owners = object.meta_mut().owner_references.get_or_insert_default();
    match owners.iter_mut().find(|owner| owner.uid == reference.uid) {
        Some(owner) => *owner = reference,
        None => owners.push(reference),
    }
}

fn describe<C: Object>(object: &C) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("(unnamed)");
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};

    use super::*;

    fn named<K: Object + Default>(namespace: Option<&str>, name: &str) -> K {
        let mut object = K::default();
        object.meta_mut().name = Some(name.into());
        object.meta_mut().uid = Some(format!("uid-{name}"));
        object.meta_mut().namespace = namespace.map(Into::into);
        object
    }

    #[test]
    fn a_second_controller_is_refused_and_the_same_one_is_not() {
        let mut child: Secret = named(Some("a"), "child");
        let first: ConfigMap = named(Some("a"), "first");
        set_controller_reference(&first, &mut child).unwrap();
        set_controller_reference(&first, &mut child).unwrap();
        let owners = child.metadata.owner_references.as_ref().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!((owners[0].controller, owners[0].block_owner_deletion), (Some(true), Some(true)));
        let error = set_controller_reference(&named::<ConfigMap>(Some("a"), "second"), &mut child);
        assert_eq!(error.unwrap_err().to_string(), "a/child is already controlled by ConfigMap first");
    }

    #[test]
    fn an_owner_beside_the_controller_is_fine() {
        let mut child: Secret = named(Some("a"), "child");
        set_controller_reference(&named::<ConfigMap>(Some("a"), "first"), &mut child).unwrap();
        set_owner_reference(&named::<ConfigMap>(Some("a"), "second"), &mut child).unwrap();
        assert_eq!(controller_of(&child).unwrap().name, "first");
        assert!(is_owned_by(&child, "uid-second"));
        assert!(remove_owner_reference(&mut child, "uid-second"));
        assert!(!remove_owner_reference(&mut child, "uid-second"));
    }

    #[test]
    fn scopes_are_checked() {
        let owner: ConfigMap = named(Some("a"), "owner");
        let across = set_owner_reference(&owner, &mut named::<Secret>(Some("b"), "child"));
        assert!(matches!(across, Err(OwnerError::CrossNamespace { .. })));
        let cluster = set_owner_reference(&owner, &mut named::<Node>(None, "node"));
        assert!(matches!(cluster, Err(OwnerError::ClusterScoped { .. })));
        let node: Node = named(None, "node");
        set_owner_reference(&node, &mut named::<Secret>(Some("b"), "child")).unwrap();
        let unread = set_owner_reference(&ConfigMap::default(), &mut named::<Secret>(None, "child"));
        assert!(matches!(unread, Err(OwnerError::Incomplete { .. })));
    }
}
