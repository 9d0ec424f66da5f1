//! Decodes the lines of a watch to events, on several threads if very many lines arrive at once.
//!
//! Decoding is the most expensive step of handling an event. A list of a hundred thousand objects, or a watch that was
//! interrupted for a while, is decoded in chunks that the runtime's threads share. The events are still applied one
//! after another, in the order of the watch.

use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::sink::{Batch, Sink};

/// How many lines that have already arrived are taken at once: about 2 MiB of pods.
pub(super) const READ_AHEAD: usize = 512;

/// How many lines one task decodes: a few hundred microseconds of work, so that the cost of a task does not matter.
const CHUNK: usize = 64;

/// Decoded lines, in the order of the watch.
pub(super) struct Batches {
    first: Option<Box<dyn Batch>>,
    /// The following batches, which tasks decode, in reverse order.
    later: Vec<JoinHandle<Box<dyn Batch>>>,
}

impl Batches {
    pub(super) fn of(sink: &Arc<dyn Sink>, mut lines: Vec<Bytes>) -> Self {
        let mut later = Vec::new();
        while lines.len() > CHUNK {
            let rest = (lines.len() - 1) / CHUNK * CHUNK;
            let (sink, chunk) = (sink.clone(), lines.split_off(rest));
            later.push(tokio::spawn(async move { sink.read(chunk) }));
        }
        Self { first: Some(sink.clone().read(lines)), later }
    }

    /// The next batch; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Box<dyn Batch>> {
        match self.first.take() {
            Some(first) => Some(first),
            None => match self.later.pop()?.await {
                Ok(batch) => Some(batch),
                // A panic in a task fails the watch, which starts again, so that these lines are not lost.
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                // The tokio runtime is shutting down.
                Err(_) => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use parking_lot::Mutex;

    use super::super::reading::Reading;
    use super::*;
    use crate::informer::shared::{Each, Shared};
    use crate::{Event, Source};

    #[tokio::test]
    async fn many_lines_are_applied_in_their_order() {
        for count in [1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 7] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let shared = Arc::new(Shared::<ConfigMap>::new(Source::new(), 1, None));
            let names = told.clone();
            let _subscription = Shared::subscribe(
                &shared,
                Arc::new(Each(move |event: &Event<ConfigMap>| names.lock().push(event.object().name_any()))),
            );
            let line = |at: usize| match at % 10 {
                3 => Bytes::new(),
                _ => Bytes::from(format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{at}"}}}}}}"#)),
            };
            let sink: Arc<dyn Sink> = shared;
            let mut reading = Reading::watch(String::new());
            let mut batches = Batches::of(&sink, (0..count).map(line).collect());
            while let Some(batch) = batches.next().await {
                assert!(batch.apply(&mut reading).is_ok());
            }
            let wanted: Vec<String> = (0..count).filter(|at| at % 10 != 3).map(|at| at.to_string()).collect();
            assert_eq!(*told.lock(), wanted);
        }
    }

    /// A ConfigMap whose deserialization panics for one object among a few hundred.
    #[derive(Clone, Debug, serde::Serialize)]
    struct Fragile(ConfigMap);

    impl<'de> serde::Deserialize<'de> for Fragile {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let map = ConfigMap::deserialize(deserializer)?;
            assert_ne!(map.name_any(), "200", "no such name");
            Ok(Self(map))
        }
    }

    impl kube::Resource for Fragile {
        type DynamicType = ();
        type Scope = kube::core::NamespaceResourceScope;

        fn kind(_: &()) -> std::borrow::Cow<'_, str> {
            "ConfigMap".into()
        }

        fn group(_: &()) -> std::borrow::Cow<'_, str> {
            "".into()
        }

        fn version(_: &()) -> std::borrow::Cow<'_, str> {
            "v1".into()
        }

        fn plural(_: &()) -> std::borrow::Cow<'_, str> {
            "configmaps".into()
        }

        fn meta(&self) -> &kube::core::ObjectMeta {
            &self.0.metadata
        }

        fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
            &mut self.0.metadata
        }
    }

    /// A panic while another task decodes lines must not skip these lines.
    #[tokio::test]
    #[should_panic(expected = "no such name")]
    async fn a_panic_in_another_task_is_one_of_the_watch() {
        let sink: Arc<dyn Sink> = Arc::new(Shared::<Fragile>::new(Source::new(), 1, None));
        let line = |at: usize| {
            Bytes::from(format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{at}"}}}}}}"#))
        };
        let mut batches = Batches::of(&sink, (0..5 * CHUNK).map(line).collect());
        while let Some(batch) = batches.next().await {
            assert!(batch.apply(&mut Reading::watch(String::new())).is_ok());
        }
    }
}
