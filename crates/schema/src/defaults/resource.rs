//! The API group `resource.k8s.io`: dynamic resource allocation.

use super::{Object, set_number, set_text, text};

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "ExactDeviceRequest" | "DeviceSubRequest" => {
            set_text(object, "allocationMode", "ExactCount");
            if text(object, "allocationMode") == "ExactCount" {
                set_number(object, "count", 1);
            }
        }
        "DeviceToleration" => set_text(object, "operator", "Equal"),
        _ => {}
    }
}
