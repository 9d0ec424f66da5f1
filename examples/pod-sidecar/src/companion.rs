//! Companions: which pods get one, which pods are one, and what they look like.

use evenkeel::Request;
use evenkeel::k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use evenkeel::kube::{Resource as _, ResourceExt as _};

/// The label of pods that get a companion. Its value is `true`.
pub const WANTED: &str = "example.com/companion";

/// The annotation of a pod with the image of its companion.
pub const IMAGE: &str = "example.com/companion-image";

/// The label that every companion carries.
pub const IS_COMPANION: &str = "example.com/is-companion";

/// The default image of companions.
const DEFAULT_IMAGE: &str = "busybox:1.37";

/// Whether this pod shall have a companion: it has the label, and has not ended.
pub fn is_wanted(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    asks(pod) && !ended && pod.metadata.deletion_timestamp.is_none()
}

/// The pod to reconcile when this pod changes: its owner if it is a companion, itself if it has the label, or none.
pub fn subject(pod: &Pod) -> Option<Request> {
    match owner(pod) {
        Some(owner) => Some(Request::new(pod.namespace().as_deref(), owner.name.as_str())),
        None => asks(pod).then(|| Request::of(pod)),
    }
}

/// The name of this pod's companion. Because the name is fixed, a second companion cannot be created.
pub fn key_for(pod: &Request) -> Request {
    Request { namespace: pod.namespace.clone(), name: format!("{}-companion", pod.name).into() }
}

/// The desired companion of this pod.
pub fn companion_for(pod: &Pod) -> Pod {
    let container =
        Container { name: "companion".to_owned(), image: Some(image_for(pod)), ..Default::default() };
    Pod {
        metadata: ObjectMeta {
            name: Some(key_for(&Request::of(pod)).name.to_string()),
            namespace: pod.namespace(),
            labels: Some([(IS_COMPANION.to_owned(), "true".to_owned())].into()),
            owner_references: pod.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
        ..Default::default()
    }
}

/// The desired image of this pod's companion.
pub fn image_for(pod: &Pod) -> String {
    pod.annotations().get(IMAGE).cloned().unwrap_or_else(|| DEFAULT_IMAGE.to_owned())
}

/// The current image of this companion.
pub fn image_of(companion: &Pod) -> Option<&str> {
    companion.spec.as_ref()?.containers.first()?.image.as_deref()
}

/// Whether this is the companion of exactly this pod, not of an earlier one of the same name.
pub fn belongs(companion: &Pod, pod: &Pod) -> bool {
    owner(companion).is_some_and(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Whether this pod is a companion.
pub fn is_companion(pod: &Pod) -> bool {
    owner(pod).is_some()
}

fn asks(pod: &Pod) -> bool {
    pod.labels().get(WANTED).is_some_and(|value| value == "true")
}

fn owner(companion: &Pod) -> Option<&OwnerReference> {
    companion.labels().get(IS_COMPANION)?;
    companion.owner_references().iter().find(|owner| owner.kind == "Pod" && owner.controller == Some(true))
}
