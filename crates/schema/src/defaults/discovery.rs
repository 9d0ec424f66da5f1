//! The API group `discovery.k8s.io`: EndpointSlices.

use super::{Object, set};

pub(super) fn rules(name: &str, object: &mut Object) {
    if name == "EndpointPort" {
        set(object, "name", "");
        set(object, "protocol", "TCP");
    }
}
