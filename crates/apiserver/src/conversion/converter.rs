//! Converts objects between versions, by a webhook if their definition says so.
//!
//! Kubernetes calls the webhook once for each object, even of a list. Here the objects of a list are sent in batches,
//! which the webhook's protocol allows. If the response to a batch is wrong, its objects are sent one by one, so that
//! clients see the same error as from Kubernetes. No lock is held during a call.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_schema::json::Value;
use evenkeel_schema::structural;
use evenkeel_store::Entry;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::review::{BadAnswer, Original, Question};
use super::{Served, coerce, conforms, is_stored_as_served, served_now, stored_object};
use crate::converted_objects::{Batch, batch};
use crate::header::encode_object;
use crate::object_cache::ObjectCache;
use crate::registry::WebhookConversion;
use crate::status::{Details, Result, Status};
use crate::webhook_client::{CallError, WebhookClient};
use crate::{CustomInfo, Header, Registry, ResourceInfo, storage};

/// How long a webhook may take for a conversion, as in Kubernetes.
const TIMEOUT_SECONDS: u64 = 30;
/// The size of a batch. A response, with the longer names that a new version may have, must stay below the 3 MiB that
/// are read of it.
const BATCH_BYTES: usize = 1 << 20;
/// The largest number of objects in a batch. Kubernetes' guideline for webhooks is 4 ms for an object, so even a slow
/// webhook converts a batch in a fifteenth of its timeout.
const BATCH_OBJECTS: usize = 500;
/// How many batches of one list are sent at the same time, so that parsing, encoding and the webhook overlap.
const BATCHES_AT_ONCE: usize = 4;

/// Converts objects between the versions of a kind.
#[derive(Clone)]
pub(crate) struct Converter {
    webhooks: Arc<WebhookClient>,
    env: Env,
    /// The served resources. A watch keeps the resource that it began with, but converts by the current definition.
    registry: Arc<Registry>,
}

/// Where the conversion of an object comes from.
enum Source {
    /// The next object of this request's own batches.
    Own,
    /// The batch of another request, and the object's index in it.
    Other(Batch, usize),
}

/// Why a batch could not be converted.
enum Failure {
    /// The webhook cannot be reached, so every conversion would fail.
    Call(Status),
    /// The response is wrong. If the batch has several objects, some of them may still be converted.
    Answer(Status),
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Call(status) | Failure::Answer(status) => status,
        }
    }
}

impl Converter {
    /// Creates a converter that calls webhooks by this client.
    pub(crate) fn new(webhooks: Arc<WebhookClient>, env: Env, registry: Arc<Registry>) -> Self {
        Self { webhooks, env, registry }
    }

    /// Returns a stored object in the version of this resource.
    ///
    /// # Errors
    /// If the stored bytes are damaged, or the conversion fails.
    pub(crate) async fn served(
        &self,
        info: &Arc<ResourceInfo>,
        entry: &Arc<Entry<Header>>,
    ) -> Result<Served> {
        let info = &self.info_for(info, entry);
        if let Some(served) = served_now(info, entry)? {
            return Ok(served);
        }
        let mut made = self.made(info, std::slice::from_ref(entry)).await?;
        made.pop().ok_or_else(|| Status::internal("a conversion gave nothing back"))
    }

    /// Returns stored objects in the version of this resource, in order. The inner errors are those of objects with
    /// damaged bytes.
    ///
    /// # Errors
    /// If the conversion of any object fails.
    pub(crate) async fn served_all(
        &self,
        info: &Arc<ResourceInfo>,
        entries: &[Arc<Entry<Header>>],
    ) -> Result<Vec<Result<Served>>> {
        let mut missing = Vec::new();
        let mut places = Vec::new();
        let mut all: Vec<Option<Result<Served>>> = Vec::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            let info = &*self.info_for(info, entry);
            check_version(info, entry)?;
            let found = served_now(info, entry).transpose();
            if found.is_none() {
                places.push(place);
                missing.push(entry.clone());
            }
            all.push(found);
        }
        if !missing.is_empty() {
            let made = self.made(info, &missing).await?;
            for (place, served) in places.into_iter().zip(made) {
                all[place] = Some(Ok(served));
            }
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Returns a stored object in the version of this resource, parsed, without a resourceVersion.
    pub(crate) async fn decoded(
        &self,
        info: &Arc<ResourceInfo>,
        entry: &Arc<Entry<Header>>,
    ) -> Result<Value> {
        self.served(info, entry).await?.object()
    }

    /// Returns a stored object in the version of this resource, with its resourceVersion. Recently written objects come
    /// from the cache.
    pub(crate) async fn object(
        &self,
        cache: &ObjectCache,
        info: &Arc<ResourceInfo>,
        entry: &Arc<Entry<Header>>,
    ) -> Result<Arc<Value>> {
        super::tree(cache, info, &self.served(info, entry).await?)
    }

    /// Converts an object from the version of this resource to the storage version.
    pub(crate) async fn to_storage_version(&self, info: &ResourceInfo, object: Value) -> Result<Value> {
        let Some(custom) = &info.custom else { return Ok(super::to_storage_version(info, object)) };
        if custom.storage_version == info.version {
            return Ok(object);
        }
        let (json, _) = encode_object(&object);
        let mut stored = self.converted(info, &custom.storage_version, object, Some(json)).await?;
        // Kubernetes sets the defaults of the storage version whenever it reads the object.
        if let Some(storage) = custom.versions.get(&custom.storage_version) {
            structural::default(&storage.schema, &mut stored);
        }
        Ok(stored)
    }

    /// Converts an object from one resource to another that serves the same kind.
    pub(crate) async fn convert(
        &self,
        from: &ResourceInfo,
        to: &ResourceInfo,
        object: &Value,
    ) -> Result<Value> {
        match &from.custom {
            Some(_) => self.converted(from, &to.version, object.clone(), None).await,
            None => {
                let stored = super::to_storage_version(from, object.clone());
                Ok(super::from_storage_version(to, stored))
            }
        }
    }

    /// Converts a custom resource to another version. `json` is what the webhook receives, if it differs from the
    /// object.
    async fn converted(
        &self,
        info: &ResourceInfo,
        version: &str,
        mut object: Value,
        json: Option<Bytes>,
    ) -> Result<Value> {
        let Some(custom) = &info.custom else { return Ok(object) };
        let desired = format!("{}/{version}", info.group);
        if object["apiVersion"] == *desired {
            return Ok(object);
        }
        if let Some(webhook) = &custom.webhook {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let original = Original {
                api_version: text(&object["apiVersion"]),
                kind: text(&object["kind"]),
                json: json.unwrap_or_else(|| object.to_string().into()),
                metadata: object["metadata"].take(),
            };
            let converted = self.call(webhook, &desired, &[original]).await?.pop();
            object = converted.ok_or_else(|| Status::internal("a conversion gave nothing back"))?;
        }
        object["apiVersion"] = desired.into();
        coerce(custom, version, &mut object);
        Ok(object)
    }

    /// Converts stored objects by the webhook, or waits for other requests that are converting them.
    async fn made(&self, info: &Arc<ResourceInfo>, entries: &[Arc<Entry<Header>>]) -> Result<Vec<Served>> {
        let info = &self.current(info);
        let Some(custom) = &info.custom else {
            return Err(Status::internal("a built-in kind has no webhook"));
        };
        let mut sources = Vec::with_capacity(entries.len());
        let mut own: Vec<Arc<Entry<Header>>> = Vec::new();
        let mut bytes = 0;
        let mut batches = Vec::new();
        for entry in entries {
            if let Some((batch, place)) = custom.converted.pending(entry.revision) {
                sources.push(Source::Other(batch, place));
                continue;
            }
            sources.push(Source::Own);
            if !own.is_empty() && (own.len() == BATCH_OBJECTS || bytes + entry.value.len() > BATCH_BYTES) {
                batches.push(self.begin(info, custom, std::mem::take(&mut own)));
                bytes = 0;
            }
            bytes += entry.value.len();
            own.push(entry.clone());
        }
        if !own.is_empty() {
            batches.push(self.begin(info, custom, own));
        }
        let made: Vec<_> = stream::iter(batches).buffered(BATCHES_AT_ONCE).try_collect().await?;
        let mut made = made.iter().flat_map(|batch| batch.iter().cloned());
        let mut all = Vec::with_capacity(entries.len());
        for (entry, source) in entries.iter().zip(sources) {
            let converted = match source {
                Source::Own => made.next(),
                Source::Other(batch, place) => match batch.await {
                    Ok(converted) => converted.get(place).cloned(),
                    // The batch of another request may have failed because of one of its other objects.
                    Err(_) => self.converted_entries(info, custom, std::slice::from_ref(entry)).await?.pop(),
                },
            };
            all.push(Served(converted.ok_or_else(|| Status::internal("a conversion gave nothing back"))?));
        }
        Ok(all)
    }

    /// Returns the resource whose definition says how an object is converted. A request or watch keeps the resource
    /// that it began with, which may not know the version of an object written since.
    fn info_for<'a>(&self, info: &'a Arc<ResourceInfo>, entry: &Entry<Header>) -> Cow<'a, Arc<ResourceInfo>> {
        match is_stored_as_served(info, entry) {
            true => Cow::Borrowed(info),
            false => Cow::Owned(self.current(info)),
        }
    }

    /// Returns the resource by its current definition, or the given one if it is built in or no longer served.
    pub(crate) fn current(&self, info: &Arc<ResourceInfo>) -> Arc<ResourceInfo> {
        if info.custom.is_none() {
            return info.clone();
        }
        let now = self.registry.find(&info.group, &info.version, &info.plural);
        let uid = |info: &ResourceInfo| info.custom.as_ref().map(|custom| custom.uid.clone());
        now.filter(|now| uid(now) == uid(info)).unwrap_or_else(|| info.clone())
    }

    /// Prepares a batch that other requests can wait for. It starts when it is first awaited.
    fn begin(
        &self,
        info: &Arc<ResourceInfo>,
        custom: &Arc<CustomInfo>,
        entries: Vec<Arc<Entry<Header>>>,
    ) -> Batch {
        let revisions: Vec<u64> = entries.iter().map(|entry| entry.revision).collect();
        let (converter, info, of) = (self.clone(), info.clone(), custom.clone());
        let batch = batch({
            let revisions = revisions.clone();
            async move {
                let converted = converter.converted_entries(&info, &of, &entries).await;
                of.converted.end(revisions.into_iter());
                converted
            }
        });
        custom.converted.begin(revisions.into_iter(), &batch);
        batch
    }

    /// Converts stored objects, and keeps the results.
    async fn converted_entries(
        &self,
        info: &ResourceInfo,
        custom: &CustomInfo,
        entries: &[Arc<Entry<Header>>],
    ) -> Result<Vec<Arc<Entry<Header>>>> {
        let Some(webhook) = &custom.webhook else {
            // The definition has lost its conversion webhook in the meantime.
            let served = entries.iter().map(|entry| served_now(info, entry));
            let lost = || Status::internal("a conversion gave nothing back");
            return served.map(|served| served?.map(|it| it.0).ok_or_else(lost)).collect();
        };
        let originals: Result<Vec<Original>> =
            entries.iter().map(|entry| original(info, custom, entry)).collect();
        let objects = self.call(webhook, &info.api_version(), &originals?).await?;
        let kept = objects.into_iter().zip(entries).map(|(mut object, entry)| {
            coerce(custom, &info.version, &mut object);
            let served = Served::new(entry, &object);
            custom.converted.keep(&served.0);
            served.0
        });
        Ok(kept.collect())
    }

    /// Calls a webhook for several objects. If the response is wrong, calls it for each of them.
    async fn call(
        &self,
        webhook: &WebhookConversion,
        desired: &str,
        originals: &[Original],
    ) -> Result<Vec<Value>> {
        match self.call_once(webhook, desired, originals).await {
            Err(Failure::Answer(_)) if originals.len() > 1 => {
                let mut objects = Vec::with_capacity(originals.len());
                for original in originals {
                    objects.extend(self.call_once(webhook, desired, std::slice::from_ref(original)).await?);
                }
                Ok(objects)
            }
            called => Ok(called?),
        }
    }

    async fn call_once(
        &self,
        webhook: &WebhookConversion,
        desired: &str,
        originals: &[Original],
    ) -> std::result::Result<Vec<Value>, Failure> {
        let Some(first) = originals.first() else { return Ok(Vec::new()) };
        let uid = self.env.uid();
        let question = Question::new(&webhook.review_versions, &uid, desired);
        let question = question.map_err(|why| Failure::Call(Status::server_error(why)))?;
        let body = question.body(originals).into();
        let answer = self.webhooks.post(&webhook.client_config, TIMEOUT_SECONDS, body).await;
        let answer = answer.map_err(|error| {
            let (CallError::Config(why) | CallError::Request(why)) = error;
            Failure::Call(Status::server_error(format!(
                "conversion webhook for {} failed: {why}",
                first.gvk()
            )))
        })?;
        question.read(&answer, originals).map_err(|bad| match bad {
            BadAnswer::Refused(why) => Failure::Call(Status::server_error(why)),
            BadAnswer::Content(why) => Failure::Answer(Status::server_error(why)),
        })
    }
}

/// Refuses to list an object that is stored in a version which its definition no longer has. Kubernetes fails to fill
/// its cache in that case.
fn check_version(info: &ResourceInfo, entry: &Entry<Header>) -> Result<()> {
    let Some(custom) = info.custom.as_ref().filter(|it| !conforms(it, entry)) else { return Ok(()) };
    let version = storage::version(entry);
    if entry.header.damage.is_some() || custom.versions.contains_key(version) {
        return Ok(());
    }
    let (gone, kind) = (super::gone(info, version), &info.kind);
    let message = format!(
        "storage is (re)initializing: failed to list {}/{}, Kind={kind}: {gone}",
        info.group, info.version
    );
    let details = Details { retry_after_seconds: 1, ..Details::default() };
    Err(Status::new(429, "TooManyRequests", message).with(details))
}

/// Returns a stored object in the form in which it is sent to a webhook.
fn original(info: &ResourceInfo, custom: &CustomInfo, entry: &Entry<Header>) -> Result<Original> {
    let kind = info.kind.clone();
    if conforms(custom, entry) {
        // The stored bytes conform to the schema, and are sent unchanged.
        let header = &entry.header;
        let metadata =
            &entry.value[header.metadata_at as usize + "\"metadata\":".len()..header.metadata_end as usize];
        let metadata = serde_json::from_slice(metadata).map_err(Status::internal)?;
        let api_version = format!("{}/{}", info.group, custom.storage_version);
        return Ok(Original { api_version, kind, json: entry.value.clone(), metadata });
    }
    let mut object = stored_object(info, custom, entry)?;
    let api_version = format!("{}/{}", info.group, storage::version(entry));
    let (json, _) = encode_object(&object);
    Ok(Original { api_version, kind, json, metadata: object["metadata"].take() })
}
