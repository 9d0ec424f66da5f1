//! What a companion is: which pods want one, which pod is one, and what it looks like.

use evenkeel::Request;
use evenkeel::k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use evenkeel::kube::{Resource as _, ResourceExt as _};

/// The label of pods that want a companion; its value is `true`.
pub const WANTED: &str = "example.com/companion";

/// The annotation of such a pod that names the companion's image.
pub const IMAGE: &str = "example.com/companion-image";

/// The label that every companion carries.
pub const IS_COMPANION: &str = "example.com/is-companion";

/// The image of companions that no annotation names.
const DEFAULT_IMAGE: &str = "busybox:1.37";

/// Whether this pod shall have a companion now: it asks for one, and has not ended.
pub fn is_wanted(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    asks(pod) && !ended && pod.metadata.deletion_timestamp.is_none()
}

/// The pod that this one concerns: itself where it asks for a companion, its owner where it is one.
pub fn subject(pod: &Pod) -> Option<Request> {
    match owner(pod) {
        Some(owner) => Some(Request::new(pod.namespace().as_deref(), owner.name.as_str())),
        None => asks(pod).then(|| Request::of(pod)),
    }
}

/// The one name that the companion of this pod can have. This is what makes it the only one: whoever comes second
/// finds the name taken.
pub fn key_for(pod: &Request) -> Request {
    Request { namespace: pod.namespace.clone(), name: format!("{}-companion", pod.name).into() }
}

/// The companion that this pod wants.
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

/// The image that the companion of this pod shall run.
pub fn image_for(pod: &Pod) -> String {
    pod.annotations().get(IMAGE).cloned().unwrap_or_else(|| DEFAULT_IMAGE.to_owned())
}

/// The image that this companion runs.
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
