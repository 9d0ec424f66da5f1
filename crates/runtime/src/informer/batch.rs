//! The part of a watch that knows the type of its objects: decodes lines, and applies objects to the cache.

mod line;

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::{DynamicObject, PartialObjectMeta, Status, TypeMeta, WatchEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::progress::Progress;
use super::reflector::{Batch, Failure, List, Reading, Sink};
use super::shared::{Audience, Shared};
use crate::source::SourceKey;
use crate::{Object, Request, wire};
use line::Line;

/// A decoded line of a watch.
enum Decoded<K> {
    Event(WatchEvent<K>),
    /// A line that is not an event of this kind, and why.
    Invalid(Bytes, serde_json::Error),
    /// An empty line, which servers send to keep a connection alive.
    Empty,
}

fn decode<K: Object>(line: Bytes) -> Decoded<K> {
    if line.is_empty() {
        return Decoded::Empty;
    }
    match wire::read(&line) {
        Ok(Line(event)) => Decoded::Event(event),
        Err(error) => Decoded::Invalid(line, error),
    }
}

/// Decoded events of one kind, in the order of the watch.
struct Events<K: Object> {
    shared: Arc<Shared<K>>,
    list: Vec<Decoded<K>>,
}

impl<K: Object> Batch for Events<K> {
    fn apply(self: Box<Self>, reading: &mut Reading) -> Result<(), Failure> {
        let Self { shared, list } = *self;
        let mut audience = shared.audience();
        let applied = list.into_iter().try_for_each(|event| match event {
            Decoded::Event(event) => shared.apply(&mut audience, event, reading),
            Decoded::Invalid(line, error) => shared.apply_invalid(&mut audience, &line, &error, reading),
            Decoded::Empty => Ok(()),
        });
        audience.rest();
        applied
    }
}

impl<K: Object> Shared<K> {
    fn apply(
        &self,
        audience: &mut Audience<K>,
        event: WatchEvent<K>,
        reading: &mut Reading,
    ) -> Result<(), Failure> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                reading.passed(object.meta().resource_version.as_ref());
                reading.seen(&self.put(audience, object, reading.origin()));
            }
            WatchEvent::Deleted(object) => {
                reading.passed(object.meta().resource_version.as_ref());
                self.remove(audience, &Request::of(&object), Some(object), reading.origin());
            }
            WatchEvent::Bookmark(bookmark) => {
                if let Some(list) = reading.marked(&bookmark) {
                    self.remove_unseen(audience, list);
                }
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        }
        Ok(())
    }

    /// Handles an object that does not match its Rust type: the cache does not have the object until it is repaired.
    fn apply_invalid(
        &self,
        audience: &mut Audience<K>,
        line: &[u8],
        error: &serde_json::Error,
        reading: &mut Reading,
    ) -> Result<(), Failure> {
        let key = read_invalid(line, error, reading)?;
        self.report_invalid(&key.to_string(), error);
        self.remove(audience, &key, None, reading.origin());
        Ok(())
    }

    fn remove_unseen(&self, audience: &mut Audience<K>, list: List) {
        list.unseen.iter().for_each(|key| self.remove(audience, key, None, list.origin));
    }

    fn report_invalid(&self, what: &str, error: &serde_json::Error) {
        let what: String = what.chars().take(200).collect();
        tracing::error!(source = %self.source, object = what, %error, "an object does not match its Rust type and is left out of the cache");
    }
}

/// Reads the key of an object that does not match its Rust type. Fails if the line is not about an object.
fn read_invalid(line: &[u8], error: &serde_json::Error, reading: &mut Reading) -> Result<Request, Failure> {
    if let Ok(status) = serde_json::from_slice::<Status>(line)
        && status.is_failure()
    {
        return Err(kube::Error::Api(status.boxed()).into());
    }
    let partial = serde_json::from_slice::<WatchEvent<PartialObjectMeta<DynamicObject>>>(line);
    let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) = partial
    else {
        let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        return Err(kube::Error::SerdeError(serde::de::Error::custom(format!("{error} in {text}"))).into());
    };
    reading.passed(object.metadata.resource_version.as_ref());
    Ok(Request::of(&object))
}

impl<K: Object> Sink for Shared<K> {
    fn source(&self) -> &SourceKey {
        &self.source.key
    }

    fn url_path(&self, namespace: Option<&str>) -> String {
        K::url_path(&self.source.dynamic, namespace)
    }

    fn is_metadata(&self) -> bool {
        K::metadata_api()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    fn observe(&self, scope: usize, version: &str) {
        self.observe(scope, version);
    }

    fn keys(&self, namespace: Option<&str>) -> BTreeSet<Request> {
        let store = self.store.read();
        match namespace {
            // For the first list there is nothing to compare with, so that the order does not matter.
            _ if store.len() == 0 => BTreeSet::new(),
            Some(namespace) => store.snapshot().keys_in(namespace).cloned().collect(),
            None => store.sorted().into_iter().map(|(key, _)| key).collect(),
        }
    }

    fn read(self: Arc<Self>, lines: Vec<Bytes>) -> Box<dyn Batch> {
        Box::new(Events { list: lines.into_iter().map(decode).collect(), shared: self })
    }

    fn apply_page(&self, page: &[u8], reading: &mut Reading) -> kube::Result<ListMeta> {
        let page = self.page(page).map_err(kube::Error::SerdeError)?;
        let mut audience = self.audience();
        for object in page.items {
            reading.seen(&self.put(&mut audience, self.with_types(object), reading.origin()));
        }
        audience.rest();
        Ok(page.metadata)
    }

    fn end_list(&self, list: List) {
        let mut audience = self.audience();
        self.remove_unseen(&mut audience, list);
        audience.rest();
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
    items: Vec<T>,
}

/// Some servers write an empty list as `null`.
fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

impl<K: Object> Shared<K> {
    fn page(&self, bytes: &[u8]) -> serde_json::Result<Page<K>> {
        if let Ok(page) = wire::read::<Page<K>>(bytes) {
            return Ok(page);
        }
        // An object of the page does not match its type. Decode one by one, and leave out only those that fail.
        let page: Page<&RawValue> = wire::read(bytes)?;
        let items = page.items.into_iter().filter_map(|raw| {
            serde_json::from_str(raw.get()).map_err(|error| self.report_invalid(raw.get(), &error)).ok()
        });
        Ok(Page { metadata: page.metadata, items: items.collect() })
    }

    /// Adds apiVersion and kind to a dynamic object: lists of built-in kinds leave them out of their items.
    fn with_types(&self, mut object: K) -> K {
        let any: &mut dyn Any = &mut object;
        if let Some(dynamic) = any.downcast_mut::<DynamicObject>()
            && dynamic.types.is_none()
        {
            let resource = &self.source.key.resource;
            let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
            dynamic.types = Some(TypeMeta { api_version, kind });
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::Source;
    use crate::event::Origin;

    fn shared() -> Arc<Shared<ConfigMap>> {
        Arc::new(Shared::new(Source::new(), 1, None))
    }

    fn names(shared: &Shared<ConfigMap>) -> Vec<String> {
        Sink::keys(shared, None).iter().map(ToString::to_string).collect()
    }

    fn object(name: &str, version: u32, data: &str) -> String {
        format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"data":{data}}}"#)
    }

    #[test]
    fn an_object_that_does_not_fit_its_type_is_left_out_until_it_is_mended() {
        let shared = shared();
        let mut reading = Reading::watch("1".into());
        let mut apply = |kind: &str, objects: &[String]| {
            let line = |object| Bytes::from(format!(r#"{{"type":"{kind}","object":{object}}}"#));
            let applied = shared.clone().read(objects.iter().map(line).collect()).apply(&mut reading);
            assert!(applied.is_ok());
            names(&shared)
        };
        let (a, b) = (object("a", 2, "{}"), object("b", 3, "{}"));
        assert_eq!(apply("ADDED", &[a, b]), ["a", "b"]);
        let (broken, c) = (object("a", 4, "7"), object("c", 5, "{}"));
        assert_eq!(apply("MODIFIED", &[broken.clone(), c]), ["b", "c"], "it is not shown as it was before");
        assert_eq!(apply("MODIFIED", &[object("a", 6, "{}")]), ["a", "b", "c"]);
        assert_eq!(apply("MODIFIED", &[object("b", 7, "7")]), ["a", "c"]);
        assert_eq!(reading.version(), "7", "the watch goes on behind it");
    }

    #[test]
    fn a_line_that_is_no_object_ends_the_watch_after_what_came_before() {
        let shared = shared();
        let mut reading = Reading::watch("1".into());
        let added = Bytes::from(format!(r#"{{"type":"ADDED","object":{}}}"#, object("a", 2, "{}")));
        let applied = shared.clone().read(vec![added, Bytes::from_static(b"<html>")]).apply(&mut reading);
        assert!(matches!(applied, Err(Failure::Error(kube::Error::SerdeError(_)))));
        assert_eq!((names(&shared), reading.version()), (vec!["a".to_owned()], "2"));
        let gone =
            br#"{"kind":"Status","status":"Failure","message":"too old","reason":"Expired","code":410}"#;
        let applied = shared.clone().read(vec![Bytes::from_static(gone)]).apply(&mut reading);
        assert!(matches!(applied, Err(Failure::Gone)), "some servers send the bare status");
    }

    #[test]
    fn an_item_of_a_page_that_does_not_fit_is_left_out_alone() {
        let shared = shared();
        let mut reading = Reading::list(Origin::List, BTreeSet::new());
        let items = [object("a", 2, "{}"), object("b", 3, "7"), object("c", 4, "{}")].join(",");
        let page = format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"x"}},"items":[{items}]}}"#);
        let metadata = shared.apply_page(page.as_bytes(), &mut reading).unwrap();
        assert_eq!(
            (names(&shared), metadata.continue_.as_deref()),
            (vec!["a".into(), "c".into()], Some("x"))
        );
        let empty = shared.apply_page(br#"{"metadata":{},"items":null}"#, &mut reading).unwrap();
        assert_eq!(empty.continue_, None);
    }
}
