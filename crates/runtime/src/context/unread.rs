//! Writes that decode only the metadata of the response.
//!
//! The server answers a write with the stored object. Most reconciles do not look at it, and decoding it would be
//! wasted.

use kube::core::params::Patch;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::Objects;
use super::objects::Unsent;
use crate::error::ContextError;
use crate::flight;
use crate::own_writes::{Expected, Written};
use crate::{Object, Request};

/// The part of a response from which the write is remembered.
#[derive(Deserialize)]
struct Answer {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<IgnoredAny>>,
}

impl Metadata {
    fn key(&self) -> Request {
        Request::new(self.namespace.as_deref(), self.name.as_deref().unwrap_or_default())
    }

    /// Returns what a cache shows once it has seen the write, or `None` if the response has no resource version.
    fn expected(self) -> Option<Expected> {
        let no_finalizers = self.finalizers.is_none_or(|finalizers| finalizers.is_empty());
        let gone = self.deletion_timestamp.is_some()
            && self.deletion_grace_period_seconds == Some(0)
            && no_finalizers;
        self.resource_version.map(|version| if gone { Expected::Gone } else { Expected::Version(version) })
    }
}

impl<K: Object> Objects<'_, K> {
    /// Creates the object and returns its key, like [`Objects::create`], but does not decode the stored object.
    pub async fn create_unread(&self, object: K) -> Result<Request, ContextError> {
        let (key, request) = self.creation(object)?;
        self.write_unread("create", &key, request).await
    }

    /// Patches a subresource of the object, such as `status`, like [`Objects::patch_subresource`], but does not decode
    /// the stored object.
    pub async fn patch_subresource_unread<P: Serialize>(
        &self,
        subresource: &str,
        key: &Request,
        patch: &Patch<P>,
    ) -> Result<(), ContextError> {
        let params = self.patch_params(patch);
        let request = self.requests(key).patch_subresource(subresource, &key.name, &params, patch);
        self.write_unread("patch", key, request).await?;
        Ok(())
    }

    /// Sends a write and remembers it. Returns the key of the written object.
    async fn write_unread(
        &self,
        verb: &'static str,
        key: &Request,
        request: Unsent,
    ) -> Result<Request, ContextError> {
        self.inner.scope.throttle().await;
        let body = self.noted_body(&request);
        let bytes = self.send(verb, key, request).await?;
        let Answer { metadata } = self.parse(verb, key, &bytes)?;
        let (key, uid) = (metadata.key(), metadata.uid.clone());
        if let Some(expected) = metadata.expected() {
            if let Some(body) = body {
                self.note_sent(&key, &expected, &body);
            }
            self.remember(Written { resource: self.resource(), key: key.clone(), uid, expected });
        }
        Ok(key)
    }

    /// Tells the flight recorder which fields a write sent. Their previous values are unknown, because the response was
    /// not decoded.
    fn note_sent(&self, key: &Request, expected: &Expected, body: &flight::Body) {
        let revision = match expected {
            Expected::Version(version) => version.parse().unwrap_or_default(),
            Expected::Gone => 0,
        };
        self.note_changes(&key.name, revision, || flight::fields(body));
    }
}
