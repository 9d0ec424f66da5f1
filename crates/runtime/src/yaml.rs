//! Reads YAML documents, and applies them as `kubectl apply -f` does.
//!
//! *Invariant:* no other module reads YAML or JSON of a user by a parser without a bound on its nesting depth.
//! `serde_json` has its own; kube reads kubeconfigs with `serde_saphyr`'s default, 64 levels.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::error::BoxError;

/// How many levels of lists and maps a document may have: as many as the API server accepts. Parsers, and whatever walks
/// their results, recurse that deep. A document that nests deeper could end the process by a stack overflow.
pub const DEPTH_MAX: usize = 120;

/// How many parser events a text may have, documents of lists and maps together. A bundle of a hundred large definitions
/// has a million.
const EVENTS_MAX: usize = 20_000_000;

/// How many bytes may be read again because of badly indented lines: about a second of work.
const REREAD_BYTES_MAX: usize = 64 << 20;

/// YAML documents could not be applied.
///
/// ```
/// use evenkeel_runtime::yaml::{self, YamlError};
///
/// assert!(matches!(yaml::parse("kind: [").unwrap_err(), YamlError::Parse(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YamlError {
    /// The text is not YAML, a document is not an object, or one is nested deeper than [`DEPTH_MAX`].
    #[error("read the documents: {0}")]
    Parse(#[source] BoxError),
    /// A document has no apiVersion or kind.
    #[error("apply {name}: the document has no apiVersion and kind")]
    Untyped {
        /// The name of the object.
        name: String,
    },
    /// The API server refused the request, or could not be reached.
    #[error("apply {kind} {name}: {source}")]
    Api {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// The server's answer, or the error of the connection.
        source: Box<kube::Error>,
    },
}

/// Applies every document of a YAML text in order, by server-side apply with this field manager. Returns the objects as
/// the server stored them. Objects without a namespace go into `namespace`, if their kind lives in namespaces.
///
/// # Errors
/// At the first document that cannot be applied.
pub async fn apply(
    client: &Client,
    namespace: &str,
    field_manager: &str,
    yaml: &str,
) -> Result<Vec<DynamicObject>, YamlError> {
    let mut applied = Vec::new();
    for object in parse(yaml)? {
        applied.push(apply_one(client, namespace, field_manager, &object).await?);
    }
    Ok(applied)
}

/// Reads the objects of a YAML text.
///
/// # Errors
/// When the text is not YAML, a document is not an object, or one is nested deeper than [`DEPTH_MAX`].
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>, YamlError> {
    let object = |value| serde_json::from_value(value).map_err(|error| YamlError::Parse(error.into()));
    values(yaml)?.into_iter().map(object).collect()
}

/// Reads the documents of a YAML text, whatever they are. Empty documents are left out.
///
/// ```
/// use evenkeel_runtime::yaml;
///
/// assert_eq!(yaml::values("mode: 0644\n---\n---\n[a]\n")?.len(), 2);
/// assert!(yaml::values(&"[".repeat(100_000)).is_err());
/// # Ok::<(), yaml::YamlError>(())
/// ```
///
/// # Errors
/// When the text is not YAML, or a document is nested deeper than [`DEPTH_MAX`].
pub fn values(yaml: &str) -> Result<Vec<Value>, YamlError> {
    let values = match read(yaml) {
        Err(error) if badly_indented(&error).is_some() => read(&indented(yaml)),
        values => values,
    };
    values.map_err(|error| YamlError::Parse(error.into()))
}

fn read(yaml: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        // As in YAML 1.1, which Kubernetes reads: file modes are written as `0644`.
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    };
    serde_saphyr::from_multiple_with_options(yaml, options)
}

/// Returns the line, counted from one, if the error is about a quoted text whose next line is not indented more than the map
/// around it. The YAML specification refuses that, libyaml and Go's parsers accept it, and definitions of Istio have it.
fn badly_indented(error: &serde_saphyr::Error) -> Option<usize> {
    let error = error.without_snippet();
    let line = usize::try_from(error.location()?.line()).ok()?;
    error.to_string().contains("invalid indentation in multiline quoted scalar").then_some(line)
}

/// Indents the lines of quoted texts so far that the parser accepts them. Spaces at the start of such a line mean nothing.
fn indented(yaml: &str) -> String {
    let mut left = REREAD_BYTES_MAX;
    let mut documents = vec![String::new()];
    for line in yaml.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(String::new());
        }
        if let Some(document) = documents.last_mut() {
            document.push_str(line);
        }
    }
    // The parser names one line at a time, so that each document is read by itself.
    documents.iter().map(|document| indented_document(document, &mut left)).collect()
}

fn indented_document(document: &str, left: &mut usize) -> String {
    let mut lines: Vec<String> = document.split_inclusive('\n').map(str::to_owned).collect();
    let spaces = |line: &String| line.len() - line.trim_start_matches(' ').len();
    let deepest = lines.iter().map(spaces).max().unwrap_or_default();
    loop {
        let text = lines.concat();
        let Some(rest) = left.checked_sub(text.len()) else { return text };
        *left = rest;
        let bad = read(&text).err().and_then(|error| badly_indented(&error));
        let Some(line) = bad.and_then(|line| lines.get_mut(line.checked_sub(1)?)) else { return text };
        line.insert_str(0, &" ".repeat(deepest + 1));
    }
}

async fn apply_one(
    client: &Client,
    namespace: &str,
    field_manager: &str,
    object: &DynamicObject,
) -> Result<DynamicObject, YamlError> {
    let name = object.name_any();
    let Some(types) = &object.types else { return Err(YamlError::Untyped { name }) };
    let Ok(gvk) = GroupVersionKind::try_from(types) else { return Err(YamlError::Untyped { name }) };
    let fail =
        |source| YamlError::Api { kind: types.kind.clone(), name: name.clone(), source: Box::new(source) };
    let (resource, capabilities) = pinned_kind(client, &gvk).await.map_err(fail)?;
    let own = object.namespace();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            Api::namespaced_with(client.clone(), own.as_deref().unwrap_or(namespace), &resource)
        }
    };
    let params = PatchParams::apply(field_manager).force();
    api.patch(&name, &params, &Patch::Apply(object)).await.map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the stack that tokio's threads have. Builds without optimization need the most.
    const STACK_BYTES: usize = 1024 * 1024;

    fn on_small_stack(test: fn()) {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test);
        thread.unwrap().join().unwrap();
    }

    fn text(levels: usize, open: &str, middle: &str, close: &str) -> String {
        format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
    }

    /// Go's parsers accept a quoted text that goes on at the indentation of its key, and real definitions have it.
    #[test]
    fn quoted_texts_may_go_on_at_the_indentation_of_their_key() {
        let text = "spec:\n  a:\n    - text: 'one\n      two''s\n\n      three'\n      next: \"four\n  five: six\n      \\\"seven\"\n---\nb: 'x\ny'\nc: |\n  'z\n  y\n";
        let wanted = serde_json::json!([
            {"spec": {"a": [{"text": "one two's\nthree", "next": "four five: six \"seven"}]}},
            {"b": "x y", "c": "'z\ny\n"},
        ]);
        assert_eq!(Value::from(values(text).unwrap()), wanted);
        assert!(values("a:\n  b: 'x\n  y'\n  c: [").is_err(), "other errors stay");
        assert!(values("a:\n  b: 'x\n  y\n").is_err(), "the text has no end");
    }

    /// Each badly indented line costs another read of its document, within a bound.
    #[test]
    fn very_many_badly_indented_lines_are_not_read_for_ever() {
        let text = format!("a:\n  b: 'x{}'\n", "\n  y".repeat(100_000));
        let mut left = 4 << 20;
        indented_document(&text, &mut left);
        assert!(left < text.len());
    }

    #[test]
    fn documents_with_thousands_of_levels_are_refused() {
        on_small_stack(|| {
            for levels in [1_000, 100_000] {
                let block: String =
                    (0..levels.min(1_500)).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
                // The parser bounds what the text nests, and not what aliases repeat.
                let anchors: String = (1..levels / 100)
                    .map(|n| format!("v{n}: &v{n} {}\n", text(100, "[", &format!("*v{}", n - 1), "]")))
                    .collect();
                for yaml in [
                    block,
                    format!("v0: &v0 [1]\n{anchors}"),
                    text(levels, "- ", "1", ""),
                    text(levels, "? ", "1", ""),
                    text(levels, "{a: ", "1", "}"),
                    text(levels, "[", "1", "]"),
                    text(levels, "{\"a\":", "1", "}"),
                    "[".repeat(levels),
                ] {
                    let refused = values(&yaml);
                    assert!(matches!(refused, Err(YamlError::Parse(_))), "{levels} levels of {}", &yaml[..9]);
                    assert!(parse(&format!("spec: {yaml}")).is_err(), "{levels} levels of {}", &yaml[..9]);
                }
            }
        });
    }

    #[test]
    fn the_deepest_documents_are_read_in_every_form() {
        on_small_stack(|| {
            for yaml in [text(DEPTH_MAX, "- ", "1", ""), text(DEPTH_MAX, "{a: ", "1", "}")] {
                assert_eq!(values(&yaml).unwrap().len(), 1);
            }
            let inner = text(DEPTH_MAX - 1, "[", "", "]");
            let object = parse(&format!("kind: Deep\napiVersion: v1\nspec: {inner}")).unwrap().remove(0);
            assert_eq!(object.data["spec"].to_string(), inner);
        });
    }

    /// Aliases repeat what they name: a few lines can stand for gigabytes.
    #[test]
    fn aliases_that_multiply_are_refused() {
        let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = level - 1;
            let ten = vec![format!("*a{before}"); 10].join(", ");
            yaml.push_str(&format!("a{level}: &a{level} [{ten}]\n"));
        }
        assert!(values(&yaml).is_err());
    }
}
