//! Reads and writes of one kind on behalf of a reconcile.

use std::sync::Arc;

use evenkeel_record::Change;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use kube::core::params::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Ensured, Inner};
use crate::cache::Cache;
use crate::error::ContextError;
use crate::fence::Fenced;
use crate::flight;
use crate::object::{Scoping, kind_name, scoping};
use crate::own_writes::{Expected, Written};
use crate::wire;
use crate::{Object, Request};

/// A request that is ready to be sent, or the reason why it cannot be built.
pub(super) type Unsent = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Reads and writes of one kind on behalf of a reconcile.
///
/// [`Ctx::objects`](super::Ctx::objects) makes it, for kinds that are known at run time: `DynamicObject` and
/// `PartialObjectMeta`. For other types, the context itself has the same methods.
///
/// ```no_run
/// use evenkeel_runtime::{Ctx, Objects, Result};
/// use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
///
/// async fn pause(ctx: &Ctx, name: &str) -> Result<()> {
///     let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Backup"));
///     let backups: Objects<'_, DynamicObject> = ctx.objects(resource);
///     if let Some(backup) = backups.fetch(&backups.key(name)).await? {
///         backups.delete(&backup).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Objects<'a, K: Object> {
    pub(super) inner: &'a Inner,
    pub(super) dynamic: K::DynamicType,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.scope.name, self.request)
    }
}

impl<'a, K: Object> Objects<'a, K> {
    pub(super) fn new(inner: &'a Inner, dynamic: K::DynamicType) -> Self {
        Self { inner, dynamic }
    }

    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::erase::<K>(&self.dynamic)
    }

    fn kind(&self) -> String {
        kind_name(&self.resource())
    }

    /// The key of the object with this name: in the namespace of the request, or without one for a cluster-scoped kind.
    pub fn key(&self, name: &str) -> Request {
        let namespace = match scoping::<K>() {
            Scoping::Cluster => None,
            Scoping::Namespaced | Scoping::Unknown => self.inner.request.namespace.clone(),
        };
        Request { namespace, name: name.into() }
    }

    /// The cache of this kind, if the controller declared one.
    pub fn cache(&self) -> Result<Cache<K>, ContextError> {
        let informer = self.inner.scope.informer::<K>(&self.resource());
        informer.map(|informer| informer.cache()).ok_or_else(|| ContextError::Undeclared {
            kind: self.kind(),
            controller: self.inner.scope.name.to_string(),
            known: !matches!(scoping::<K>(), Scoping::Unknown),
        })
    }

    /// The object from the cache.
    pub fn get(&self, key: &Request) -> Result<Option<Arc<K>>, ContextError> {
        let found = self.cache()?.get(key);
        if let Some(found) = &found {
            let version = found.meta().resource_version.as_deref();
            if let Some(notes) = self.inner.tally.lock().recorded() {
                notes.read::<K>(key, version);
            }
        }
        Ok(found)
    }

    /// The objects in the cache with an owner reference to the owner of this context.
    pub fn children(&self) -> Result<Vec<Arc<K>>, ContextError> {
        let cache = self.cache()?;
        let Some(owner) = &*self.inner.owner else { return Ok(Vec::new()) };
        let uid = &owner.reference.uid;
        if cache.has_index(crate::index::BY_OWNER) {
            return cache.owned_by(uid);
        }
        Ok(cache.list().into_iter().filter(|object| crate::owner::is_owned_by(&**object, uid)).collect())
    }

    /// Reads the object from the server. Returns `None` if there is no such object.
    pub async fn fetch(&self, key: &Request) -> Result<Option<K>, ContextError> {
        let request = match K::metadata_api() {
            true => self.requests(key).get_metadata(&key.name, &GetParams::default()),
            false => self.requests(key).get(&key.name, &GetParams::default()),
        };
        match self.send("get", key, request).await {
            Ok(bytes) => self.parse("get", key, &bytes).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies the object by forced server-side apply, with the controller's field manager. The owner of this context
    /// becomes its controller.
    pub async fn apply(&self, mut object: K) -> Result<K, ContextError> {
        self.own(&mut object)?;
        self.apply_unowned(object).await
    }

    /// Applies the object without an owner: for objects in other namespaces or of wider scope.
    pub async fn apply_unowned(&self, mut object: K) -> Result<K, ContextError> {
        self.place(&mut object);
        let key = self.named("apply", &object)?;
        object.meta_mut().managed_fields = None;
        object.meta_mut().resource_version = None;
        let body = self.body(&object)?;
        let params = PatchParams::apply(&self.inner.scope.field_manager).force();
        let request = self.requests(&key).patch(&key.name, &params, &Patch::Apply(body));
        self.write("apply", &key, request).await
    }

    /// Creates the object. The owner of this context becomes its controller.
    pub async fn create(&self, mut object: K) -> Result<K, ContextError> {
        self.own(&mut object)?;
        self.create_unowned(object).await
    }

    /// Creates the object without an owner. The object may have `generateName` instead of a name.
    pub async fn create_unowned(&self, mut object: K) -> Result<K, ContextError> {
        self.place(&mut object);
        let (key, request) = self.post(&object)?;
        self.write("create", &key, request).await
    }

    /// Returns the key and the request that create an object. The owner of this context becomes the object's
    /// controller.
    pub(super) fn creation(&self, mut object: K) -> Result<(Request, Unsent), ContextError> {
        self.own(&mut object)?;
        self.post(&object)
    }

    fn post(&self, object: &K) -> Result<(Request, Unsent), ContextError> {
        let key = Request::of(object);
        let body = self.encode(&self.body(object)?)?;
        let request = self.requests(&key).create(&self.post_params(), body);
        Ok((key, request))
    }

    /// Replaces the object. If the object has a resource version, the server refuses if that is not the newest.
    pub async fn update(&self, object: &K) -> Result<K, ContextError> {
        let key = self.named("update", object)?;
        let body = self.encode(&self.body(object)?)?;
        let request = self.requests(&key).replace(&key.name, &self.post_params(), body);
        self.write("update", &key, request).await
    }

    /// Replaces the status of the object. If the object has a resource version, the server refuses if that is not the
    /// newest.
    pub async fn update_status(&self, object: &K) -> Result<K, ContextError> {
        let key = self.named("update status of", object)?;
        let body = self.encode(&self.body(object)?)?;
        let request = self.requests(&key).replace_subresource("status", &key.name, &self.post_params(), body);
        self.write("update status of", &key, request).await
    }

    /// Patches the object.
    pub async fn patch<P: Serialize>(&self, key: &Request, patch: &Patch<P>) -> Result<K, ContextError> {
        let request = self.requests(key).patch(&key.name, &self.patch_params(patch), patch);
        self.write("patch", key, request).await
    }

    /// Patches the object by a list of JSON patch operations (RFC 6902).
    pub async fn patch_json(&self, key: &Request, operations: &Value) -> Result<K, ContextError> {
        // kube has JSON patches behind a feature; the request differs from a merge patch by its content type only.
        let params = PatchParams::apply(&self.inner.scope.field_manager);
        let request = self.requests(key).patch(&key.name, &params, &Patch::Merge(operations));
        let request = request.map(|mut request| {
            let json_patch = http::HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(http::header::CONTENT_TYPE, json_patch);
            request
        });
        self.write("patch", key, request).await
    }

    /// Patches a subresource of the object, such as `status` or `scale`.
    pub async fn patch_subresource<P: Serialize>(
        &self,
        subresource: &str,
        key: &Request,
        patch: &Patch<P>,
    ) -> Result<K, ContextError> {
        let params = self.patch_params(patch);
        let request = self.requests(key).patch_subresource(subresource, &key.name, &params, patch);
        self.write("patch", key, request).await
    }

    /// Deletes exactly this object, not another one with its name. Returns whether the object existed.
    pub async fn delete(&self, object: &K) -> Result<bool, ContextError> {
        let preconditions = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(preconditions);
        let key = self.named("delete", object)?;
        self.delete_with(&key, &params).await
    }

    /// Deletes the object with this key. Returns whether the object existed.
    pub async fn delete_with(&self, key: &Request, params: &DeleteParams) -> Result<bool, ContextError> {
        let request = self.requests(key).delete(&key.name, params);
        self.inner.scope.throttle().await;
        let bytes = match self.send("delete", key, request).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(false),
            // Another object has the name now: the object to delete is gone.
            Err(error) if error.is_conflict() && self.uid_conflict(params, &error) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.remember_deletion(key, &serde_json::from_slice(&bytes).unwrap_or_default());
        Ok(true)
    }

    /// Remembers a deletion. If the object is deleted, the server answers with a `Status` that names its uid. If it is only
    /// marked for deletion (a finalizer holds it, or a pod ends gracefully), the server answers with the object, and the
    /// cache will show that mark.
    fn remember_deletion(&self, key: &Request, answer: &Value) {
        let text = |pointer| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let marked = text("/metadata/deletionTimestamp").and_then(|_| text("/metadata/resourceVersion"));
        let uid = text("/metadata/uid").or_else(|| text("/details/uid"));
        let expected = marked.map_or(Expected::Gone, Expected::Version);
        self.remember(Written { resource: self.resource(), key: key.clone(), uid, expected });
    }

    fn uid_conflict(&self, params: &DeleteParams, error: &ContextError) -> bool {
        let uid = params.preconditions.as_ref().and_then(|preconditions| preconditions.uid.as_ref());
        // The server has two messages: one of the check before the deletion, one of the deletion itself.
        let said = ["the UID in the precondition", "UID in precondition"];
        let message = error.status().map_or("", |status| &status.message);
        uid.is_some() && said.iter().any(|said| message.contains(said))
    }

    /// Reads the object, or creates it if it is missing. Returns the existing object if another writer creates it first.
    pub async fn get_or_create(&self, mut object: K) -> Result<K, ContextError> {
        self.place(&mut object);
        let key = self.named("get or create", &object)?;
        if let Ok(Some(cached)) = self.get(&key) {
            return Ok((*cached).clone());
        }
        match self.create(object).await {
            Err(error) if error.is_already_exists() => match self.fetch(&key).await? {
                Some(found) => Ok(found),
                None => Err(error),
            },
            result => result,
        }
    }

    /// Creates the object if it is missing, updates it if `mutate` changes it, and otherwise leaves it alone. `mutate` gets
    /// the newest object from the server, or `object` if there is none.
    pub async fn create_or_update(
        &self,
        mut object: K,
        mutate: impl FnOnce(&mut K),
    ) -> Result<(K, Ensured), ContextError> {
        self.place(&mut object);
        let key = self.named("create or update", &object)?;
        let Some(found) = self.fetch(&key).await? else {
            mutate(&mut object);
            return Ok((self.create(object).await?, Ensured::Created));
        };
        let mut wanted = found.clone();
        mutate(&mut wanted);
        self.own(&mut wanted)?;
        if self.body(&wanted)? == self.body(&found)? {
            return Ok((found, Ensured::Unchanged));
        }
        Ok((self.update(&wanted).await?, Ensured::Updated))
    }

    /// Sets the namespace of an object without one to that of the context's owner or request.
    fn place(&self, object: &mut K) {
        if object.meta().namespace.is_none() && scoping::<K>() == Scoping::Namespaced {
            let owner = self.inner.owner.as_ref().and_then(|owner| owner.namespace.clone());
            let request = || self.inner.request.namespace().map(str::to_owned);
            object.meta_mut().namespace = owner.or_else(request);
        }
    }

    fn own(&self, object: &mut K) -> Result<(), ContextError> {
        self.place(object);
        match &*self.inner.owner {
            Some(owner) => Ok(owner.control(object)?),
            None => Ok(()),
        }
    }

    fn named(&self, verb: &'static str, object: &K) -> Result<Request, ContextError> {
        let key = Request::of(object);
        match key.name.is_empty() {
            true => Err(ContextError::Unnamed { verb, kind: self.kind() }),
            false => Ok(key),
        }
    }

    pub(super) fn requests(&self, key: &Request) -> kube::core::Request {
        kube::core::Request::new(K::url_path(&self.dynamic, key.namespace()))
    }

    fn post_params(&self) -> PostParams {
        PostParams { dry_run: false, field_manager: Some(self.inner.scope.field_manager.to_string()) }
    }

    pub(super) fn patch_params<P: Serialize>(&self, patch: &Patch<P>) -> PatchParams {
        let params = PatchParams::apply(&self.inner.scope.field_manager);
        match patch {
            Patch::Apply(_) => params.force(),
            _ => params,
        }
    }

    /// The object as JSON, with apiVersion and kind.
    pub(super) fn body(&self, object: &K) -> Result<Value, ContextError> {
        let encode = |source| ContextError::Encode { kind: self.kind(), source };
        let mut body = serde_json::to_value(object).map_err(encode)?;
        if let Some(map) = body.as_object_mut() {
            map.insert("apiVersion".into(), K::api_version(&self.dynamic).into());
            map.insert("kind".into(), K::kind(&self.dynamic).into());
        }
        Ok(body)
    }

    fn encode(&self, body: &Value) -> Result<Vec<u8>, ContextError> {
        serde_json::to_vec(body).map_err(|source| ContextError::Encode { kind: self.kind(), source })
    }

    /// Sends a write and remembers it.
    pub(super) async fn write(
        &self,
        verb: &'static str,
        key: &Request,
        request: Unsent,
    ) -> Result<K, ContextError> {
        self.inner.scope.throttle().await;
        let body = self.noted_body(&request);
        let before = self.cache().ok().filter(|_| body.is_some()).and_then(|cache| cache.get(key));
        let bytes = self.send(verb, key, request).await?;
        let object: K = self.parse(verb, key, &bytes)?;
        if let Some(body) = body {
            self.note_write(before.as_deref(), &object, &body);
        }
        self.remember_object(&object);
        Ok(object)
    }

    /// The body of a write, if the flight recorder is on: it says what the write may have changed. All fields of a created
    /// object are new, so that its body is not looked at.
    pub(super) fn noted_body(&self, request: &Unsent) -> Option<flight::Body> {
        let request = request.as_ref().ok().filter(|_| self.inner.scope.records)?;
        let body = match *request.method() {
            Method::POST => Vec::new(),
            _ => request.body().clone(),
        };
        Some(flight::Body::new(body, request.method() == Method::PATCH))
    }

    /// Tells the flight recorder which fields a write changed. `before` is the object as the cache had it, `body` is that of
    /// the request.
    fn note_write(&self, before: Option<&K>, after: &K, body: &flight::Body) {
        let version = |object: &K| object.meta().resource_version.clone();
        if before.is_some_and(|before| version(before) == version(after)) {
            return;
        }
        let name = after.meta().name.as_deref().unwrap_or_default();
        let revision = version(after).and_then(|version| version.parse().ok()).unwrap_or_default();
        self.note_changes(name, revision, || match before {
            Some(before) => {
                let kind = K::kind(&self.dynamic);
                flight::changes(&kind, before, after, body, &self.inner.scope.sensitive.read())
            }
            None => flight::fields(body),
        });
    }

    /// Tells the flight recorder what the last request changed. `find` is called only if the answer is kept.
    pub(super) fn note_changes(&self, name: &str, revision: u64, find: impl FnOnce() -> (Vec<Change>, u64)) {
        let Some(method) = self.inner.tally.lock().notes.last_method() else { return };
        let changed = if method == Method::POST { Default::default() } else { find() };
        self.inner.tally.lock().notes.changed(name, revision, changed);
    }

    /// Remembers a write that was made through the client; `object` is the server's answer.
    pub fn remember_object(&self, object: &K) {
        let Some(version) = object.meta().resource_version.clone() else { return };
        // Removing the last finalizer deletes the object, and the server answers with the object before its deletion.
        let gone = is_gone(object.meta());
        self.remember(Written {
            resource: self.resource(),
            key: Request::of(object),
            uid: object.meta().uid.clone(),
            expected: if gone { Expected::Gone } else { Expected::Version(version) },
        });
    }

    pub(super) fn remember(&self, written: Written) {
        self.inner.tally.lock().writes.push(written);
    }

    pub(super) async fn send(
        &self,
        verb: &'static str,
        key: &Request,
        request: Unsent,
    ) -> Result<bytes::Bytes, ContextError> {
        let fail = |source| self.api_error(verb, key, source);
        let request = request.map_err(|error| fail(kube::Error::BuildRequest(error)))?;
        let answer = wire::send(&self.inner.scope.client, request).await;
        if let Err(kube::Error::Api(status)) = &answer {
            self.inner.tally.lock().notes.refused(&status.message);
        }
        answer.map_err(fail)
    }

    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        key: &Request,
        bytes: &[u8],
    ) -> Result<T, ContextError> {
        wire::read(bytes).map_err(|error| self.api_error(verb, key, kube::Error::SerdeError(error)))
    }

    fn api_error(&self, verb: &'static str, key: &Request, source: kube::Error) -> ContextError {
        let (kind, object) = (self.kind(), key.to_string());
        match source {
            kube::Error::Service(error) if error.is::<Fenced>() => {
                ContextError::Fenced { verb, kind, object, why: "this process is not the leader any more" }
            }
            source => ContextError::Api { verb, kind, object, source: Box::new(source) },
        }
    }
}

/// Whether the server has deleted an object with this metadata: it is marked for deletion, without a grace period and
/// without finalizers.
fn is_gone(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds == Some(0)
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
}
