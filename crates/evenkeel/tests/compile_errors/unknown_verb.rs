//! A list of kinds says what the controller does with each.
//~ `writes`: a list of kinds has `owns`, `watches` and `reads`

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};

evenkeel::kinds! {
    pub struct PageKinds for ConfigMap { writes Secret }
}
