//! The first half of a reflector: lists the server's objects into a cache, as a stream or page by page.

use std::time::Duration;

use bytes::Bytes;
use kube::core::params::ListParams;

use super::decode::{Batches, READ_AHEAD};
use super::reading::Reading;
use super::{Failure, Reflector};
use crate::event::Origin;
use crate::wire::{self, Lines};

/// How many objects a page of a list has: the number of client-go and kubectl, about 2 MiB of pods.
const PAGE_SIZE: u32 = 500;

/// How long a streamed list may be silent before pages are requested instead. A server that waits for its own cache is
/// silent for 3 s; a server that ignores `sendInitialEvents` is silent for ever.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(10);

/// The result of a list.
pub(super) enum Listed {
    /// A list in pages: everything up to this resource version is in the cache.
    Pages(String),
    /// A streamed list: everything up to this resource version is in the cache, and the watch continues from there.
    Stream(String, Lines),
}

impl Reflector {
    /// Lists all objects and updates the cache accordingly.
    pub(super) async fn list(&mut self) -> Result<Listed, Failure> {
        let origin = if self.synced { Origin::Relist } else { Origin::List };
        self.sink.progress().lists();
        if self.streams {
            match self.list_streamed(origin).await {
                Err(Failure::Unstreamed(why)) => {
                    tracing::info!(source = %self.sink.source(), why, "the server does not stream the list: listing in pages");
                    self.streams = false;
                }
                listed => return listed.map(|(version, lines)| Listed::Stream(version, lines)),
            }
        }
        self.list_pages(origin).await.map(Listed::Pages)
    }

    /// Begins to read a list, with the keys that are in the cache before it.
    fn reading(&self, origin: Origin) -> Reading {
        Reading::list(origin, self.sink.keys(self.namespace.as_deref()))
    }

    /// Lists all objects as the beginning of a watch. Returns the resource version at which the list ends, and the watch.
    async fn list_streamed(&self, origin: Origin) -> Result<(String, Lines), Failure> {
        let mut lines = self.open("", true).await.map_err(|failure| match failure {
            Failure::Error(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                Failure::Unstreamed("the server refuses it")
            }
            other => other,
        })?;
        let mut reading = self.reading(origin);
        while reading.is_listing() {
            let Ok(line) = tokio::time::timeout(STREAM_SILENCE_MAX, lines.next()).await else {
                return Err(Failure::Unstreamed("no bookmark has ended it"));
            };
            let cut = || kube::Error::ReadEvents(std::io::ErrorKind::UnexpectedEof.into());
            let line = line?.ok_or_else(cut)?;
            let mut batches = Batches::of(&self.sink, lines.ready(line, READ_AHEAD));
            while let Some(batch) = batches.next().await {
                batch.apply(&mut reading)?;
            }
            tokio::task::consume_budget().await;
        }
        self.sink.observe(self.scope, reading.version());
        Ok((reading.into_version(), lines))
    }

    /// Lists all objects page by page. Returns the resource version of the list.
    async fn list_pages(&self, origin: Origin) -> Result<String, Failure> {
        let mut reading = self.reading(origin);
        let mut params = ListParams { limit: Some(PAGE_SIZE), ..ListParams::default() };
        params.label_selector = self.sink.source().labels.clone();
        params.field_selector = self.sink.source().fields.clone();
        let version = loop {
            let page = self.page(&params).await?;
            let metadata = self.sink.apply_page(&page, &mut reading)?;
            match metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => break metadata.resource_version.unwrap_or_default(),
            }
        };
        reading.end_list().into_iter().for_each(|list| self.sink.end_list(list));
        self.sink.observe(self.scope, &version);
        Ok(version)
    }

    async fn page(&self, params: &ListParams) -> Result<Bytes, Failure> {
        let request = match self.sink.is_metadata() {
            true => self.requests.list_metadata(params),
            false => self.requests.list(params),
        };
        Ok(wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?)
    }
}
