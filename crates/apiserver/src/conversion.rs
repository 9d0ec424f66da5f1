//! Converts objects between the versions of a kind. An object is stored in one version and served in several.
//!
//! Built-in kinds, and custom resources with the conversion strategy `None`, are converted immediately, by the
//! functions of this file. Custom resources with the strategy `Webhook` are converted by the [`Converter`], which has
//! to wait.

mod autoscaler;
mod converter;
mod event;
mod review;

use std::ops::Deref;
use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_schema::structural;
use evenkeel_store::Entry;

use crate::encode::EncodedObject;
use crate::header::encode_object;
use crate::object_cache::ObjectCache;
use crate::status::{Result, Status};
use crate::strategy::Conversion;
use crate::{CustomInfo, Header, ResourceInfo, storage};

pub(crate) use converter::Converter;

/// A stored object in the version in which a resource serves it. The key and the revisions are those of the stored
/// object; the value and the header are those of the converted one.
#[derive(Clone, Debug)]
pub(crate) struct Served(Arc<Entry<Header>>);

impl Deref for Served {
    type Target = Entry<Header>;

    fn deref(&self) -> &Entry<Header> {
        &self.0
    }
}

impl Served {
    /// The converted form of a stored object.
    fn new(stored: &Entry<Header>, object: &Value) -> Self {
        let (value, header) = encode_object(object);
        let (key, create_revision, revision) = (stored.key.clone(), stored.create_revision, stored.revision);
        Self(Arc::new(Entry { key, value, header, create_revision, revision }))
    }

    /// Makes an entry for an object that was never stored.
    #[cfg(test)]
    pub(crate) fn of_object(object: &Value, revision: u64) -> Self {
        let (value, header) = encode_object(object);
        Self(Arc::new(Entry { key: "/test".into(), value, header, create_revision: revision, revision }))
    }

    /// Returns the object, encoded with this resourceVersion. That is the object's own revision, except when its
    /// deletion is reported.
    pub(crate) fn encoded(&self, revision: u64) -> EncodedObject {
        EncodedObject::stored(&self.0, revision)
    }

    /// Parses the object, without a resourceVersion.
    pub(crate) fn object(&self) -> Result<Value> {
        storage::read(&self.0)
    }
}

/// The conversion of a built-in resource that is served in another version than it is stored in.
fn built_in(info: &ResourceInfo) -> Option<Conversion> {
    info.strategy.conversion.filter(|(version, _)| *version == info.version).map(|(_, conversion)| conversion)
}

/// Whether the stored bytes are in the version and form that this resource serves.
pub(crate) fn is_stored_as_served(info: &ResourceInfo, entry: &Entry<Header>) -> bool {
    match &info.custom {
        Some(custom) => info.version == custom.storage_version && conforms(custom, entry),
        None => built_in(info).is_none(),
    }
}

/// Whether a custom resource is stored in the storage version and conforms to its schema. If not, it is pruned,
/// defaulted and converted when it is read.
fn conforms(custom: &CustomInfo, entry: &Entry<Header>) -> bool {
    entry.header.conformity.is(custom.stored_revision)
}

/// Whether the version of this resource differs from the storage version.
pub(crate) fn converts(info: &ResourceInfo) -> bool {
    match &info.custom {
        Some(custom) => custom.storage_version != info.version,
        None => built_in(info).is_some(),
    }
}

/// Whether a webhook converts objects of this resource, so that a read may have to wait.
pub(crate) fn calls_webhook(info: &ResourceInfo) -> bool {
    info.custom.as_ref().is_some_and(|custom| custom.webhook.is_some())
}

/// Returns a stored object in the version of this resource, if no call of a webhook is needed.
///
/// # Errors
/// If the stored bytes are damaged, or of a version that the definition no longer has.
pub(crate) fn served_now(info: &ResourceInfo, entry: &Arc<Entry<Header>>) -> Result<Option<Served>> {
    storage::check_readable(entry)?;
    if is_stored_as_served(info, entry) {
        return Ok(Some(Served(entry.clone())));
    }
    let Some(custom) = &info.custom else {
        return Ok(Some(Served::new(entry, &from_storage_version(info, storage::read(entry)?))));
    };
    if let Some(kept) = custom.converted.get(entry.revision) {
        return Ok(Some(Served(kept)));
    }
    if custom.webhook.is_some() && storage::version(entry) != info.version {
        return Ok(None);
    }
    let mut object = stored_object(info, custom, entry)?;
    if is_stored_as_served(info, entry) {
        return Ok(Some(Served(entry.clone())));
    }
    object["apiVersion"] = info.api_version().into();
    coerce(custom, &info.version, &mut object);
    // Converted without holding a lock: concurrent readers may convert the object twice, but none waits.
    let served = Served::new(entry, &object);
    custom.converted.keep(&served.0);
    Ok(Some(served))
}

/// Parses a served object, with its resourceVersion. Recently written objects come from the cache.
pub(crate) fn tree(cache: &ObjectCache, info: &ResourceInfo, served: &Served) -> Result<Arc<Value>> {
    if is_stored_as_served(info, served)
        && let Some(tree) = cache.get(&served.key, served.revision)
    {
        return Ok(tree);
    }
    Ok(cache_object(cache, info, served, served.object()?))
}

/// Caches a stored object for the next writer, if it is served in its storage version.
pub(crate) fn cache_object(
    cache: &ObjectCache,
    info: &ResourceInfo,
    entry: &Entry<Header>,
    mut object: Value,
) -> Arc<Value> {
    object["metadata"]["resourceVersion"] = entry.revision.to_string().into();
    let object = Arc::new(object);
    if is_stored_as_served(info, entry) {
        cache.keep(&entry.key, entry.revision, object.clone(), entry.value.len());
    }
    object
}

/// Parses a stored custom resource in the version in which it is stored. It is pruned and defaulted by the schema of
/// that version, unless it is known to conform. If it conforms to the storage version, that is noted in its header.
fn stored_object(info: &ResourceInfo, custom: &CustomInfo, entry: &Entry<Header>) -> Result<Value> {
    let stored: Value = storage::read(entry)?;
    if conforms(custom, entry) {
        return Ok(stored);
    }
    let version = storage::version(entry);
    let Some(schema) = custom.versions.get(version) else {
        return Err(Status::server_error(gone(info, version)));
    };
    let mut object = stored.clone();
    coerce(custom, version, &mut object);
    structural::default(&schema.schema, &mut object);
    if version == custom.storage_version && object == stored {
        entry.header.conformity.note(custom.stored_revision);
    }
    Ok(object)
}

/// Returns Kubernetes' error message for an object stored in a version that its definition no longer has.
fn gone(info: &ResourceInfo, version: &str) -> String {
    format!("request to convert CR from an invalid group/version: {}/{version}", info.group)
}

/// Removes the fields that a version does not have, and nulls that it does not allow.
fn coerce(custom: &CustomInfo, version: &str, object: &mut Value) {
    let Some(schema) = custom.versions.get(version).filter(|_| !custom.preserve_unknown_fields) else {
        return;
    };
    structural::prune(&schema.schema, object);
    structural::drop_nulls(&schema.schema, object);
}

/// Brings a written object of a built-in kind into the form that it has after it was converted to the storage version and
/// back, as every object in Kubernetes is. Only conversions that add something to the object change it.
pub(crate) fn round_trip(info: &ResourceInfo, object: &mut Value) {
    if built_in(info) == Some(Conversion::HorizontalPodAutoscaler) {
        *object = from_storage_version(info, to_storage_version(info, object.take()));
    }
}

/// Converts an object of a built-in kind from the storage version to the version of this resource.
fn from_storage_version(info: &ResourceInfo, object: Value) -> Value {
    match built_in(info) {
        Some(Conversion::Event) => event::from_storage_version(object),
        Some(Conversion::HorizontalPodAutoscaler) => autoscaler::from_storage_version(object),
        None => object,
    }
}

/// Converts an object of a built-in kind from the version of this resource to the storage version.
fn to_storage_version(info: &ResourceInfo, object: Value) -> Value {
    match built_in(info) {
        Some(Conversion::Event) => event::to_storage_version(object),
        Some(Conversion::HorizontalPodAutoscaler) => autoscaler::to_storage_version(object),
        None => object,
    }
}
