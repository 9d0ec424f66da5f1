//! What a reflector fills, whatever the type of its objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;

use super::Failure;
use super::reading::{List, Reading};
use crate::Request;
use crate::informer::progress::Progress;
use crate::source::SourceKey;

/// A cache and those who are told of its changes.
pub(in crate::informer) trait Sink: Send + Sync {
    /// What is watched.
    fn source(&self) -> &SourceKey;

    /// Where the server has it.
    fn url_path(&self, namespace: Option<&str>) -> String;

    /// Whether objects are asked for their metadata alone.
    fn is_metadata(&self) -> bool;

    fn progress(&self) -> &Progress;

    /// A watch was opened after the first.
    fn restarted(&self);

    /// The reflector of this number has seen everything up to this version.
    fn observe(&self, scope: usize, version: &str);

    /// The keys that are in the cache: of this namespace, or all.
    fn keys(&self, namespace: Option<&str>) -> BTreeSet<Request>;

    /// Reads lines of a watch, which may be done on any thread.
    fn read(self: Arc<Self>, lines: Vec<Bytes>) -> Box<dyn Batch>;

    /// Applies a page of a list.
    fn apply_page(&self, page: &[u8], reading: &mut Reading) -> kube::Result<ListMeta>;

    /// Takes out of the cache what a list has not shown.
    fn end_list(&self, list: List);
}

/// Some events of a watch, to be applied after those before them.
pub(in crate::informer) trait Batch: Send {
    /// Puts them into the cache and tells of them. Those before a failure are applied.
    fn apply(self: Box<Self>, reading: &mut Reading) -> Result<(), Failure>;
}
