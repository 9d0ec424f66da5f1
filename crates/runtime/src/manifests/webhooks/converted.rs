//! What the manifests need to know about a conversion.

use kube::core::{ApiResource, CustomResourceExt};
use serde_json::Value;

use crate::Object;
use crate::webhook::Conversion;

/// A kind whose objects are converted.
#[derive(Clone, Debug)]
pub(crate) struct Converted {
    /// The name of the CustomResourceDefinition.
    pub(super) name: String,
    /// The CustomResourceDefinition with all versions.
    pub(super) definition: Value,
    pub(super) resource: ApiResource,
    /// Whether stored objects are rewritten when the storage version changes.
    pub(super) migrates: bool,
}

impl Converted {
    pub(crate) fn of<H>(conversion: &Conversion<H>) -> Self
    where
        H: Object<DynamicType = ()> + CustomResourceExt,
    {
        // If the versions cannot be merged, `Conversion::crd` returns an error to the caller that declares them.
        let definition = conversion.crd().ok().and_then(|crd| serde_json::to_value(crd).ok());
        Self {
            name: conversion.crd_name().to_owned(),
            definition: definition.unwrap_or_default(),
            resource: ApiResource::erase::<H>(&()),
            migrates: conversion.migrates(),
        }
    }
}
