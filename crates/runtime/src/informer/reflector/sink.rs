//! The cache that a reflector fills, without the type of its objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;

use super::Failure;
use super::reading::{List, Reading};
use crate::Request;
use crate::informer::progress::Progress;
use crate::source::SourceKey;

/// A cache and its subscribers, as a reflector sees them.
pub(in crate::informer) trait Sink: Send + Sync {
    /// The source that is watched.
    fn source(&self) -> &SourceKey;

    /// The path of the collection on the server.
    fn url_path(&self, namespace: Option<&str>) -> String;

    /// Whether only the metadata of objects is requested.
    fn is_metadata(&self) -> bool;

    fn progress(&self) -> &Progress;

    /// Counts a watch that was opened again.
    fn restarted(&self);

    /// Notes that the reflector with this number has seen everything up to this resource version.
    fn observe(&self, scope: usize, version: &str);

    /// The keys in the cache: those of this namespace, or all.
    fn keys(&self, namespace: Option<&str>) -> BTreeSet<Request>;

    /// Decodes lines of a watch. May be called on any thread.
    fn read(self: Arc<Self>, lines: Vec<Bytes>) -> Box<dyn Batch>;

    /// Applies a page of a list.
    fn apply_page(&self, page: &[u8], reading: &mut Reading) -> kube::Result<ListMeta>;

    /// Removes the objects from the cache that were not in the list.
    fn end_list(&self, list: List);
}

/// Decoded events of a watch, to be applied in order.
pub(in crate::informer) trait Batch: Send {
    /// Applies the events to the cache and sends them to the subscribers. Events before a failure are applied.
    fn apply(self: Box<Self>, reading: &mut Reading) -> Result<(), Failure>;
}
