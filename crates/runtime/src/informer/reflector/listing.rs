//! The first half of a reflector: bringing a cache to what the server has, as a stream or page by page.

use std::any::Any;
use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::params::ListParams;
use kube::core::{DynamicObject, TypeMeta};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::decode::{Events, READ_AHEAD};
use super::{Failure, Line, Reflector};
use crate::event::Origin;
use crate::wire::{self, Lines};
use crate::{Object, Request};

/// How many objects a page of a list has: client-go's and kubectl's number, about 2 MiB of pods.
const PAGE_SIZE: u32 = 500;

/// How long a streamed list may say nothing before pages are asked for. A server that waits for its own cache does so
/// for 3 s; one that ignores `sendInitialEvents` says nothing for ever.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a list left behind.
pub(super) enum Listed {
    /// Everything up to this version is in the cache.
    Pages(String),
    /// The same, and the watch that streamed it goes on from there.
    Stream(String, Lines),
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
    items: Vec<T>,
}

/// An empty list is `null` on some servers.
fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

impl<K: Object> Reflector<K> {
    /// Lists everything and brings the cache to it.
    pub(super) async fn list(&mut self) -> Result<Listed, Failure> {
        let origin = if self.synced { Origin::Relist } else { Origin::List };
        if self.streams {
            match self.list_streamed(origin).await {
                Err(Failure::Unstreamed(why)) => {
                    tracing::info!(source = %self.shared.source, why, "the list is not streamed: asking for pages");
                    self.streams = false;
                }
                listed => return listed.map(|(version, lines)| Listed::Stream(version, lines)),
            }
        }
        self.list_pages(origin).await.map(Listed::Pages)
    }

    /// Lists everything as the beginning of a watch; gives the version at which the list ends, and the watch.
    async fn list_streamed(&self, origin: Origin) -> Result<(String, Lines), Failure> {
        let mut lines = self.open("", true).await.map_err(|failure| match failure {
            Failure::Error(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                Failure::Unstreamed("the server refuses it")
            }
            other => other,
        })?;
        let mut unseen = self.cached();
        let mut version = String::new();
        let mut ended = false;
        while !ended {
            let Ok(line) = tokio::time::timeout(STREAM_SILENCE_MAX, lines.next()).await else {
                return Err(Failure::Unstreamed("no bookmark has ended it"));
            };
            let cut = || kube::Error::ReadEvents(std::io::ErrorKind::UnexpectedEof.into());
            let line = line?.ok_or_else(cut)?;
            let mut events = Events::of(lines.ready(line, READ_AHEAD));
            while let Some(event) = events.next().await {
                // What comes after the end of the list is the watch's.
                let origin = if ended { Origin::Watch } else { origin };
                match self.apply(event, &mut version, origin)? {
                    Line::Put(key) => drop(unseen.remove(&key)),
                    Line::Bookmark(true) => ended = true,
                    Line::Bookmark(false) | Line::Removed | Line::Skipped => {}
                }
            }
            tokio::task::consume_budget().await;
        }
        self.remove_unseen(unseen, origin);
        self.shared.observe(self.scope, &version);
        Ok((version, lines))
    }

    /// Lists everything, page by page; gives the version of the list.
    async fn list_pages(&self, origin: Origin) -> Result<String, Failure> {
        let mut unseen = self.cached();
        let mut params = ListParams { limit: Some(PAGE_SIZE), ..ListParams::default() };
        params.label_selector = self.shared.source.key.labels.clone();
        params.field_selector = self.shared.source.key.fields.clone();
        let version = loop {
            let page = self.page(&params).await?;
            for object in page.items {
                unseen.remove(&self.shared.put(self.with_types(object), origin));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => break page.metadata.resource_version.unwrap_or_default(),
            }
        };
        self.remove_unseen(unseen, origin);
        self.shared.observe(self.scope, &version);
        Ok(version)
    }

    async fn page(&self, params: &ListParams) -> Result<Page<K>, Failure> {
        let request = match K::metadata_api() {
            true => self.requests.list_metadata(params),
            false => self.requests.list(params),
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let bytes = wire::send(&self.client, request).await?;
        if let Ok(page) = wire::read::<Page<K>>(&bytes) {
            return Ok(page);
        }
        // Some object is not as its type says: leave out those alone.
        let page: Page<&RawValue> = wire::read(&bytes).map_err(kube::Error::SerdeError)?;
        let items = page.items.into_iter().filter_map(|raw| {
            serde_json::from_str(raw.get()).map_err(|error| self.report_invalid(raw.get(), &error)).ok()
        });
        Ok(Page { metadata: page.metadata, items: items.collect() })
    }

    /// The keys of this scope that are in the cache before a list: none at the first one.
    fn cached(&self) -> BTreeSet<Request> {
        let snapshot = self.shared.store.read().snapshot();
        match &self.namespace {
            Some(namespace) => snapshot.entries_in(namespace).map(|(key, _)| key.clone()).collect(),
            None => snapshot.keys().cloned().collect(),
        }
    }

    /// What was in the cache but not in the list was deleted while nobody watched.
    fn remove_unseen(&self, unseen: BTreeSet<Request>, origin: Origin) {
        unseen.iter().for_each(|key| self.shared.remove(key, None, origin));
    }

    /// Items of a list of built-in kinds carry no apiVersion and kind; a dynamic object needs them.
    fn with_types(&self, mut object: K) -> K {
        let any: &mut dyn Any = &mut object;
        if let Some(dynamic) = any.downcast_mut::<DynamicObject>()
            && dynamic.types.is_none()
        {
            let resource = &self.shared.source.key.resource;
            let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
            dynamic.types = Some(TypeMeta { api_version, kind });
        }
        object
    }
}
