//! One line of a watch: `{"type": …, "object": …}`.
//!
//! The derived `Deserialize` of `WatchEvent` buffers the object as a tree, because the object may come before its type:
//! every kind would be compiled for trees and for text. Servers write the type first. If one does not, the text of
//! the object is kept until the type is known.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use kube::core::WatchEvent;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Object;

/// The event of a line.
pub(super) struct Line<K>(pub(super) WatchEvent<K>);

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Type {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl<'de, K: Object> Deserialize<'de> for Line<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<K>(PhantomData<K>);

impl<'de, K: Object> Visitor<'de> for Members<K> {
    type Value = Line<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut event, mut object) = (None::<Type>, None, None::<&RawValue>);
        while let Some(member) = map.next_key::<Cow<'de, str>>()? {
            match (&*member, kind) {
                ("type", _) => kind = Some(map.next_value()?),
                ("object", None) => object = Some(map.next_value()?),
                ("object", Some(Type::Added)) => event = Some(WatchEvent::Added(map.next_value()?)),
                ("object", Some(Type::Modified)) => event = Some(WatchEvent::Modified(map.next_value()?)),
                ("object", Some(Type::Deleted)) => event = Some(WatchEvent::Deleted(map.next_value()?)),
                ("object", Some(Type::Bookmark)) => event = Some(WatchEvent::Bookmark(map.next_value()?)),
                ("object", Some(Type::Error)) => event = Some(WatchEvent::Error(map.next_value()?)),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (event, kind, object) {
            (Some(event), ..) => Ok(Line(event)),
            (None, Some(kind), Some(object)) => late(kind, object).map(Line).map_err(A::Error::custom),
            (None, None, _) => Err(A::Error::missing_field("type")),
            (None, Some(_), None) => Err(A::Error::missing_field("object")),
        }
    }
}

/// Makes the event of an object that came before its type.
fn late<K: Object>(kind: Type, object: &RawValue) -> serde_json::Result<WatchEvent<K>> {
    let text = object.get();
    Ok(match kind {
        Type::Added => WatchEvent::Added(serde_json::from_str(text)?),
        Type::Modified => WatchEvent::Modified(serde_json::from_str(text)?),
        Type::Deleted => WatchEvent::Deleted(serde_json::from_str(text)?),
        Type::Bookmark => WatchEvent::Bookmark(serde_json::from_str(text)?),
        Type::Error => WatchEvent::Error(serde_json::from_str(text)?),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn read(line: &str) -> Result<WatchEvent<ConfigMap>, String> {
        serde_json::from_str::<Line<ConfigMap>>(line).map(|it| it.0).map_err(|error| error.to_string())
    }

    #[test]
    fn the_order_and_further_members_do_not_matter() {
        let object = r#""object": {"metadata": {"name": "a", "resourceVersion": "7"}}"#;
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            let lines = [
                format!(r#"{{"type": "{kind}", {object}}}"#),
                format!(r#"{{{object}, "type": "{kind}"}}"#),
                format!(r#"{{"more": [{{}}], "type": "{kind}", {object}, "z": 1}}"#),
            ];
            for line in lines {
                let (seen, map) = match read(&line) {
                    Ok(WatchEvent::Added(map)) => ("ADDED", map),
                    Ok(WatchEvent::Modified(map)) => ("MODIFIED", map),
                    Ok(WatchEvent::Deleted(map)) => ("DELETED", map),
                    other => panic!("{line}: {other:?}"),
                };
                assert_eq!((seen, map.metadata.name.as_deref()), (kind, Some("a")), "{line}");
            }
        }
    }

    #[test]
    fn bookmarks_and_errors_are_no_objects_of_the_kind() {
        let bookmark =
            r#""object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}"#;
        let error = r#""object": {"kind": "Status", "status": "Failure", "message": "too old", "code": 410}"#;
        for order in [true, false] {
            let line = |kind: &str, object: &str| match order {
                true => format!(r#"{{"type": "{kind}", {object}}}"#),
                false => format!(r#"{{{object}, "type": "{kind}"}}"#),
            };
            let seen = read(&line("BOOKMARK", bookmark));
            assert!(
                matches!(&seen, Ok(WatchEvent::Bookmark(it)) if it.metadata.resource_version == "9"),
                "{seen:?}"
            );
            let seen = read(&line("ERROR", error));
            assert!(matches!(&seen, Ok(WatchEvent::Error(it)) if it.code == 410), "{seen:?}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        assert!(read(r#"{"object": {}}"#).unwrap_err().contains("missing field `type`"));
        assert!(read(r#"{"type": "ADDED"}"#).unwrap_err().contains("missing field `object`"));
        assert!(read(r#"{"type": "OTHER", "object": {}}"#).unwrap_err().contains("unknown variant"));
        assert!(read(r#"[1]"#).unwrap_err().contains("an event of a watch"));
        assert!(read(r#"{"object": {"metadata": 1}, "type": "ADDED"}"#).is_err());
    }
}
