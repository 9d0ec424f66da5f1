//! Conversion between the versions of a kind. An object is stored in one version and served in several.

mod autoscaler;
mod event;

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_schema::structural;
use evenkeel_store::Entry;
use serde_json::Value;

use crate::encode::EncodedObject;
use crate::header::encode_object;
use crate::object_cache::ObjectCache;
use crate::registry::ConvertedObjects;
use crate::status::Result;
use crate::strategy::Conversion;
use crate::{Header, ResourceInfo, storage};

/// The conversion of a built-in resource that is served in another version than it is stored in.
fn built_in(info: &ResourceInfo) -> Option<Conversion> {
    info.strategy.conversion.filter(|(version, _)| *version == info.version).map(|(_, conversion)| conversion)
}

/// Whether the stored bytes are in the version and form that this resource serves.
pub(crate) fn is_stored_as_served(info: &ResourceInfo, entry: &Entry<Header>) -> bool {
    match &info.custom {
        // Objects that are older than the schema are pruned and defaulted when they are read.
        Some(custom) => info.version == custom.storage_version && entry.revision > custom.schema_revision,
        None => built_in(info).is_none(),
    }
}

/// Returns a stored object, encoded in the version of this resource, at `revision`.
///
/// # Errors
/// If the stored bytes are damaged; the error names the key.
pub(crate) fn encoded(info: &ResourceInfo, entry: &Entry<Header>, revision: u64) -> Result<EncodedObject> {
    storage::check_readable(entry)?;
    if is_stored_as_served(info, entry) {
        return Ok(EncodedObject::stored(entry, revision));
    }
    let make = || decoded(info, entry).map(|object| encode_object(&object));
    let (bytes, header) = match &info.custom {
        Some(custom) => converted(&custom.converted, entry, make)?,
        None => make()?,
    };
    Ok(EncodedObject::new(bytes, &header, revision))
}

/// Returns the converted form of an entry; converts it if it is not cached.
fn converted(
    cache: &ConvertedObjects,
    entry: &Entry<Header>,
    make: impl FnOnce() -> Result<(Bytes, Header)>,
) -> Result<(Bytes, Header)> {
    if let Some(kept) = cache.get(&entry.revision) {
        return Ok(kept);
    }
    // Converted without holding the lock: concurrent readers may convert the object twice, but none waits.
    let made = make()?;
    cache.insert(entry.revision, made.clone(), made.0.len());
    Ok(made)
}

/// Parses a stored object and converts it to the version of this resource, without a resourceVersion.
///
/// # Errors
/// If the stored bytes are damaged; the error names the key.
pub(crate) fn decoded(info: &ResourceInfo, entry: &Entry<Header>) -> Result<Value> {
    let object = storage::read(entry)?;
    Ok(if is_stored_as_served(info, entry) { object } else { from_storage_version(info, object) })
}

/// Returns a stored object in the version of this resource, with its resourceVersion. Recently written
/// objects come from the cache.
///
/// # Errors
/// If the stored bytes are damaged; the error names the key.
pub(crate) fn object(cache: &ObjectCache, info: &ResourceInfo, entry: &Entry<Header>) -> Result<Arc<Value>> {
    if is_stored_as_served(info, entry)
        && let Some(tree) = cache.get(&entry.key, entry.revision)
    {
        return Ok(tree);
    }
    Ok(cache_object(cache, info, entry, decoded(info, entry)?))
}

/// Returns a copy of `tree`, the result of [`object`], that the caller may change. The cache can often
/// provide one without cloning.
pub(crate) fn object_copy(
    cache: &ObjectCache,
    info: &ResourceInfo,
    entry: &Entry<Header>,
    tree: &Value,
) -> Value {
    let kept = is_stored_as_served(info, entry).then(|| cache.copy(&entry.key, entry.revision));
    kept.flatten().unwrap_or_else(|| tree.clone())
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

/// Whether the version of this resource differs from the storage version.
pub(crate) fn converts(info: &ResourceInfo) -> bool {
    match &info.custom {
        Some(custom) => custom.storage_version != info.version,
        None => built_in(info).is_some(),
    }
}

/// Converts an object from the storage version to the version of this resource.
fn from_storage_version(info: &ResourceInfo, mut object: Value) -> Value {
    let Some(custom) = &info.custom else {
        return match built_in(info) {
            Some(Conversion::Event) => event::from_storage_version(object),
            Some(Conversion::HorizontalPodAutoscaler) => autoscaler::from_storage_version(object),
            None => object,
        };
    };
    object["apiVersion"] = info.api_version().into();
    if !custom.preserve_unknown_fields {
        structural::prune(&custom.schema, &mut object);
    }
    if info.version == custom.storage_version {
        structural::default(&custom.schema, &mut object);
    }
    object
}

/// Converts an object from one resource to another that serves the same kind.
pub(crate) fn convert(from: &ResourceInfo, to: &ResourceInfo, object: &Value) -> Value {
    from_storage_version(to, to_storage_version(from, object.clone()))
}

/// Converts an object from the version of this resource to the storage version.
pub(crate) fn to_storage_version(info: &ResourceInfo, mut object: Value) -> Value {
    match (&info.custom, built_in(info)) {
        (Some(custom), _) if custom.storage_version != info.version => {
            object["apiVersion"] = format!("{}/{}", info.group, custom.storage_version).into();
            // Fields that the storage version does not have are lost.
            if let Some(schema) = custom.storage_schema.as_ref().filter(|_| !custom.preserve_unknown_fields) {
                structural::prune(schema, &mut object);
            }
            object
        }
        (None, Some(Conversion::Event)) => event::to_storage_version(object),
        (None, Some(Conversion::HorizontalPodAutoscaler)) => autoscaler::to_storage_version(object),
        _ => object,
    }
}
