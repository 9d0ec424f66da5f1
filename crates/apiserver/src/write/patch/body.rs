//! The body of a patch: its type and content.

use bytes::Bytes;
use evenkeel_schema::go;
use evenkeel_schema::json::Value;
use evenkeel_schema::json::go_kind;
use evenkeel_schema::patch::{self, PatchError};
use evenkeel_schema::patched_text::{self, Touched};
use evenkeel_schema::strict_decoding::DecodingErrors;
use serde_json::value::to_raw_value;

use crate::context::RequestContext;
use crate::decode::{self, Decoded};
use crate::managed_fields;
use crate::request::FieldValidation;
use crate::status::{Details, Result, Status};

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// The type that the Content-Type names, if the resource supports it.
    pub(super) fn of(ctx: &RequestContext<'_>) -> Result<Self> {
        let media = ctx.request.header("content-type");
        match media.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if !ctx.info.is_custom() => Ok(Self::Strategic),
            _ if ctx.info.is_custom() => Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::unsupported_media_type("415: Unsupported Media Type").with(Details::default())),
        }
    }
}

/// Go's error for a list in place of an object.
const NO_OBJECT: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type \
                         struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                         \"json:\\\"kind,omitempty\\\"\" }";

/// A parsed patch.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) kind: PatchType,
    value: Value,
    /// Duplicate keys, in the words of strict decoding.
    pub(super) oddities: Vec<String>,
    /// Whether the value has floats without a fraction, such as `1e2`. Integer fields of built-in kinds
    /// refuse them.
    pub(super) has_whole_floats: bool,
    /// The text of a patch that contains floats, which errors quote in their original spelling. Empty otherwise.
    text: Bytes,
}

impl Patch {
    /// Parses a body.
    pub(super) fn parse(kind: PatchType, body: Bytes, validation: FieldValidation) -> Result<Self> {
        let strict = validation != FieldValidation::Ignore;
        if kind == PatchType::Merge && !strict {
            return Self::parse_unchecked(&body);
        }
        let refuse = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        let Decoded { object, oddities } = match kind {
            PatchType::Apply => decode::parse_yaml(&body, strict).map_err(|why| {
                Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}"))
            })?,
            _ => decode::parse_json(&body, strict).map_err(refuse)?,
        };
        if kind != PatchType::Json && !object.is_object() && !object.is_null() {
            let what = go_kind(&object);
            let why =
                format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}");
            return Err(match kind {
                PatchType::Apply => Status::bad_request(format!(
                    "error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}"
                )),
                _ => refuse(why),
            });
        }
        Ok(Self { kind, value: object, oddities: oddities.0, has_whole_floats: false, text: Bytes::new() }
            .with_floats(&body))
    }

    /// Parses numbers such as `1e2` and `1.0` as floats. Kubernetes merges JSON patches and merge patches as
    /// text and then decodes the result, so that an integer field refuses such a number. Other patches are
    /// merged as trees, in which it is an integer.
    fn with_floats(mut self, body: &Bytes) -> Self {
        if matches!(self.kind, PatchType::Json | PatchType::Merge)
            && has_floats(body)
            && let Ok(exact) = serde_json::from_slice::<Value>(body)
        {
            self.has_whole_floats = exact != self.value;
            self.value = exact;
            self.text = body.clone();
        }
        self
    }

    /// Returns the error for a result that Go cannot decode, or `None`. The error quotes numbers as the patch spells
    /// them.
    pub(super) fn undecodable(
        &self,
        ctx: &RequestContext<'_>,
        old: Option<&Value>,
        object: &Value,
        mut found: DecodingErrors,
    ) -> Option<Status> {
        found.refusal.as_ref()?;
        match self.kind {
            PatchType::Json => found.spell_by_json_patch(&self.text),
            _ => found.spell_by_merge_patch(&self.text),
        }
        let shown = match self.kind {
            PatchType::Strategic => go::text(&self.value),
            _ => self.ordered(ctx, old, found.print(object)),
        };
        found.refusal.map(|why| super::invalid_patch(&shown, &why))
    }

    /// Parses a merge patch when field validation is off. As in Kubernetes, a list is then refused for the
    /// object that it would produce, not as a malformed patch.
    fn parse_unchecked(body: &Bytes) -> Result<Self> {
        let invalid = || Status::bad_request("Invalid JSON Patch");
        let Decoded { object, .. } = decode::parse_json(body, false).map_err(|_| invalid())?;
        match object {
            Value::Object(_) => {
                let (kind, oddities) = (PatchType::Merge, Vec::new());
                let text = Bytes::new();
                Ok(Self { kind, value: object, oddities, has_whole_floats: false, text }.with_floats(body))
            }
            Value::Array(_) => Err(super::invalid_patch(&String::from_utf8_lossy(body), NO_OBJECT)),
            _ => Err(invalid()),
        }
    }

    /// Applies the patch to an object.
    pub(super) fn apply(&self, ctx: &RequestContext<'_>, mut object: Value) -> Result<Value> {
        if self.kind == PatchType::Json {
            return patch::json::apply(&object, &self.value).map_err(refusal);
        }
        let done = match self.kind {
            PatchType::Strategic => {
                let schema = managed_fields::schema(ctx).ok_or_else(Status::method_not_allowed)?;
                patch::strategic::apply(schema, &mut object, &mut self.value.clone())
            }
            _ => patch::merge::apply(&mut object, self.value.clone()),
        };
        done.map_err(refusal)?;
        Ok(object)
    }

    /// The configuration of an apply.
    pub(super) fn config(&self) -> &Value {
        &self.value
    }

    /// The text with which an error shows the patch: the result as JSON, or a strategic merge patch as Go
    /// prints a map.
    pub(super) fn shown(&self, ctx: &RequestContext<'_>, old: Option<&Value>, object: &Value) -> String {
        match self.kind {
            PatchType::Strategic => go::text(&self.value),
            _ => self.ordered(ctx, old, object.to_string()),
        }
    }

    /// Returns the text of the patched object, with its members in the order in which Kubernetes prints them.
    fn ordered(&self, ctx: &RequestContext<'_>, old: Option<&Value>, text: String) -> String {
        let Some(old) = old.filter(|_| !ctx.info.is_custom()) else { return text };
        let touched = match self.kind {
            PatchType::Json => Touched::by_json_patch(&self.value),
            _ => Touched::by_merge_patch(old, &self.value),
        };
        patched_text::order(&ctx.info.group, &ctx.info.version, &ctx.info.kind, &text, &touched)
    }
}

/// Whether valid JSON contains a number with a fraction or an exponent. Strings that look like one (`10.0.0.1`) do not
/// count.
fn has_floats(json: &[u8]) -> bool {
    let mut bytes = json.iter();
    let mut after_digit = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| **byte != b'"') {
                    if *byte == b'\\' {
                        bytes.next();
                    }
                }
                after_digit = false;
            }
            b'.' | b'e' | b'E' if after_digit => return true,
            byte => after_digit = byte.is_ascii_digit(),
        }
    }
    false
}

/// Records a patch as JSON in the audit event. A patch that is not JSON is refused and not recorded.
pub(super) fn note(ctx: &RequestContext<'_>, kind: PatchType, body: &Bytes) {
    let Some(trail) = ctx.audit else { return };
    trail.note_body(|| match kind {
        PatchType::Apply => decode::parse_yaml(body, false).ok().and_then(|it| to_raw_value(&it.object).ok()),
        _ => serde_json::from_slice(body).ok(),
    });
}

fn refusal(error: PatchError) -> Status {
    match error {
        PatchError::BadRequest(message) => Status::bad_request(message),
        PatchError::TooLarge(message) => Status::too_large(message),
        PatchError::Internal(message) => Status::server_error(message),
        PatchError::TooDeep(too_deep) => Status::new(
            422,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {too_deep}"),
        )
        .with(Details::default()),
        PatchError::Unprocessable(_) => {
            Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
                .with(Details::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_floats;

    #[test]
    fn floats_are_numbers_and_not_texts() {
        for text in [r#"{"a":1.5}"#, r#"[1e2]"#, r#"{"a\"b":"x","c":-7E1}"#, "3.0"] {
            assert!(has_floats(text.as_bytes()), "{text}");
        }
        for text in
            [r#"{"ip":"10.0.0.1"}"#, r#"{"1.5":1,"a":true}"#, r#"{"a\"1.5":"\\","b":[12,false]}"#, "\"1.5"]
        {
            assert!(!has_floats(text.as_bytes()), "{text}");
        }
    }
}
