//! Conversion of objects between the versions of a kind.
//!
//! One version is the *hub*. Every other version, a *spoke*, converts to the hub and back, so that a kind with five
//! versions needs four pairs of functions. The hub is usually the version that the operator uses and that is stored.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::CustomResourceExt;
use kube::core::crd::{MergeError, merge_crds};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Object;
use crate::error::{Error, Result, chain};

/// A version of a kind that converts to the hub and back.
///
/// A conversion must lose nothing: an object that is converted to another version and back must be unchanged. Keep what
/// a version cannot express in an annotation.
///
/// ```
/// use evenkeel_runtime::Result;
/// use evenkeel_runtime::webhook::{Conversion, Convertible};
/// # mod v1 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #     #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
/// #     pub struct SiteSpec { pub replicas: i32 }
/// # }
/// # mod v2 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #     pub struct Servers { pub count: i32 }
/// #     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #     #[kube(group = "example.com", version = "v2", kind = "Site", namespaced)]
/// #     pub struct SiteSpec { pub servers: Servers }
/// # }
///
/// impl Convertible for v1::Site {
///     type Hub = v2::Site;
///
///     fn into_hub(self) -> Result<v2::Site> {
///         let servers = v2::Servers { count: self.spec.replicas };
///         Ok(v2::Site { metadata: self.metadata, spec: v2::SiteSpec { servers } })
///     }
///
///     fn from_hub(hub: v2::Site) -> Result<Self> {
///         Ok(v1::Site { metadata: hub.metadata, spec: v1::SiteSpec { replicas: hub.spec.servers.count } })
///     }
/// }
///
/// let conversion = Conversion::<v2::Site>::new().spoke::<v1::Site>();
/// let crd = conversion.crd()?;                       // both versions; v2 is stored
/// assert_eq!(crd.spec.versions.len(), 2);
/// # Ok::<_, evenkeel_runtime::Error>(())
/// ```
pub trait Convertible: Object<DynamicType = ()> + CustomResourceExt {
    /// The version that every other version converts to.
    type Hub: Object<DynamicType = ()> + CustomResourceExt;

    /// Converts this object to the hub.
    fn into_hub(self) -> Result<Self::Hub>;

    /// Converts an object of the hub to this version.
    fn from_hub(hub: Self::Hub) -> Result<Self>;
}

/// All versions of a kind: the hub `H`, and its spokes. [`Convertible`] has an example.
#[must_use]
pub struct Conversion<H> {
    group: String,
    kind: String,
    hub: String,
    stored: Option<String>,
    migrates: bool,
    versions: BTreeMap<String, Version<H>>,
    crds: Vec<CustomResourceDefinition>,
}

/// How to read one version into the hub, and write it from the hub.
struct Version<H> {
    read: fn(&str) -> Result<H>,
    write: fn(H) -> Result<Value>,
}

/// Why an object cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The JSON is not an object of this kind.
    #[error("the object cannot be read: {0}")]
    Undecodable(serde_json::Error),
    /// The kind has no such version.
    #[error("{kind} has no version {version}; there are {known}")]
    UnknownVersion {
        /// The kind with its group.
        kind: String,
        /// The unknown version.
        version: String,
        /// The versions that exist.
        known: String,
    },
    /// A conversion function failed.
    #[error("convert {object} from {from} to {to}: {why}")]
    Failed {
        /// The kind and name of the object.
        object: String,
        /// The version of the object.
        from: String,
        /// The version to convert to.
        to: String,
        /// The error with its sources.
        why: String,
    },
}

impl<H: Object<DynamicType = ()> + CustomResourceExt> Conversion<H> {
    /// Makes a conversion whose hub is `H`, with no other versions yet.
    #[expect(clippy::new_without_default, reason = "a kind without spokes is only the begin of one")]
    pub fn new() -> Self {
        let read = |text: &str| Ok(serde_json::from_str(text)?);
        let write = |hub: H| Ok(serde_json::to_value(hub)?);
        let hub = H::version(&()).into_owned();
        Self {
            group: H::group(&()).into_owned(),
            kind: H::kind(&()).into_owned(),
            stored: None,
            migrates: false,
            versions: [(hub.clone(), Version { read, write })].into(),
            hub,
            crds: vec![H::crd()],
        }
    }

    /// Adds a version.
    pub fn spoke<V: Convertible<Hub = H>>(mut self) -> Self {
        let read = |text: &str| serde_json::from_str::<V>(text)?.into_hub();
        let write = |hub: H| Ok(serde_json::to_value(V::from_hub(hub)?)?);
        self.versions.insert(V::version(&()).into_owned(), Version { read, write });
        self.crds.push(V::crd());
        self
    }

    /// Sets which version is stored, instead of the hub. A release that adds a version should store the old one until
    /// no replica of the previous release is left.
    pub fn stored(mut self, version: impl Into<String>) -> Self {
        self.stored = Some(version.into());
        self
    }

    /// Rewrites the stored objects when the storage version has changed, and then removes the old version from the
    /// `status.storedVersions` of the CustomResourceDefinition, so that the version can be removed from the definition.
    /// The leader does this, with at most 50 objects a second, and a new leader resumes where the last one stopped. Off
    /// by default.
    ///
    /// Turn it on one release after the storage version was changed, when no replica is left that cannot convert the
    /// new version.
    pub fn migrate_storage(mut self) -> Self {
        self.migrates = true;
        self
    }

    pub(crate) fn migrates(&self) -> bool {
        self.migrates
    }

    /// The version in which objects are stored.
    pub fn stored_version(&self) -> &str {
        self.stored.as_ref().unwrap_or(&self.hub)
    }

    /// Returns the CustomResourceDefinition with all versions, merged by [`merge_crds`]. It lacks `spec.conversion`,
    /// which [`Webhooks::conversions`](super::Webhooks::conversions) returns.
    pub fn crd(&self) -> Result<CustomResourceDefinition, MergeError> {
        merge_crds(self.crds.clone(), self.stored_version())
    }

    /// The name of the CustomResourceDefinition.
    pub fn crd_name(&self) -> &'static str {
        H::crd_name()
    }

    pub(crate) fn erase(self) -> Converter {
        let (group, kind) = (self.group.clone(), self.kind.clone());
        let crd_name = H::crd_name().to_owned();
        let convert = move |text: &RawValue, version: &str| self.convert_text(text.get(), version);
        Converter { group, kind, crd_name, convert: Box::new(convert) }
    }
}

impl<H: Object<DynamicType = ()>> Conversion<H> {
    /// Converts an object to another version, as the webhook does.
    pub fn convert(&self, object: &Value, version: &str) -> Result<Value, ConversionError> {
        self.convert_text(&object.to_string(), version)
    }

    fn convert_text(&self, text: &str, version: &str) -> Result<Value, ConversionError> {
        let object: Meta<'_> = serde_json::from_str(text).map_err(ConversionError::Undecodable)?;
        let from = object.api_version.rsplit('/').next().unwrap_or_default();
        let (reader, writer) = (self.version(from)?, self.version(version)?);
        if from == version {
            return serde_json::from_str(text).map_err(ConversionError::Undecodable);
        }
        let converted = (reader.read)(text).and_then(writer.write);
        let mut converted = converted.map_err(|error| self.failed(&object, from, version, &error))?;
        keep_identity(&mut converted, object.metadata);
        Ok(converted)
    }

    fn version(&self, version: &str) -> Result<&Version<H>, ConversionError> {
        self.versions.get(version).ok_or_else(|| ConversionError::UnknownVersion {
            kind: format!("{}.{}", self.kind, self.group),
            version: version.to_owned(),
            known: self.versions.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    fn failed(&self, object: &Meta<'_>, from: &str, to: &str, error: &Error) -> ConversionError {
        let metadata: Value =
            serde_json::from_str(object.metadata.map_or("", RawValue::get)).unwrap_or_default();
        let name = metadata["name"].as_str().unwrap_or_default();
        let object = format!("{}.{} {name:?}", self.kind, self.group);
        ConversionError::Failed { object, from: from.into(), to: to.into(), why: chain(error.as_std()) }
    }
}

/// The part of an object that is read before its version is known.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    api_version: String,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

/// Keeps the metadata as it was sent, apart from labels and annotations: Kubernetes lets a conversion change only
/// these, and the type may not know every field of the metadata.
fn keep_identity(converted: &mut Value, metadata: Option<&RawValue>) {
    let Some(metadata) = metadata else { return };
    let Ok(mut kept) = serde_json::from_str::<Value>(metadata.get()) else { return };
    for field in ["labels", "annotations"] {
        match converted["metadata"].get_mut(field).map(Value::take) {
            Some(value) if !value.is_null() => kept[field] = value,
            _ => drop(kept.as_object_mut().map(|kept| kept.remove(field))),
        }
    }
    converted["metadata"] = kept;
}

/// Converts objects of one kind, with its types erased.
pub(crate) struct Converter {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) crd_name: String,
    convert: Box<ConvertFn>,
}

type ConvertFn = dyn Fn(&RawValue, &str) -> Result<Value, ConversionError> + Send + Sync;

impl Converter {
    pub(crate) fn convert(&self, object: &RawValue, version: &str) -> Result<Value, ConversionError> {
        (self.convert)(object, version)
    }
}

impl<H> fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("kind", &self.kind)
            .field("group", &self.group)
            .field("hub", &self.hub)
            .field("versions", &self.versions.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
