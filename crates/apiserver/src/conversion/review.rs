//! ConversionReviews: the requests to a conversion webhook, and the rules for its responses.
//!
//! Pure functions, with Kubernetes' rules and error messages.

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::field::{Path, aggregate};
use evenkeel_schema::json::go_kind;
use evenkeel_schema::json::{Map, Value};
use evenkeel_schema::{go, object_meta, selector};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode;
use crate::encode::push_text;
use crate::status::quote;
use crate::{WebhookAnswer, webhook_client};

const GROUP: &str = "apiextensions.k8s.io";
/// The versions of ConversionReview that this server knows.
const KNOWN_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The name of the Go scheme that the webhook client uses, as it appears in error messages.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// An object that is to be converted.
pub(super) struct Original {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The object as JSON.
    pub(super) json: bytes::Bytes,
    /// The object's metadata.
    pub(super) metadata: Value,
}

impl Original {
    /// The object's kind as Go prints it.
    pub(super) fn gvk(&self) -> String {
        let (group, version) = split_api_version(&self.api_version);
        format!("{group}/{version}, Kind={}", self.kind)
    }
}

/// A review that is sent to a webhook.
pub(super) struct Question<'a> {
    /// The version of the review.
    version: &'static str,
    uid: &'a str,
    desired: &'a str,
}

/// Why the response of a webhook cannot be used, in Kubernetes' words.
#[derive(Debug, PartialEq)]
pub(super) enum BadAnswer {
    /// The response is an HTTP error, so every review would fail.
    Refused(String),
    /// The content of the response is wrong. Other objects may still be converted.
    Content(String),
}

impl<'a> Question<'a> {
    /// A review in the first of the definition's `conversionReviewVersions` that this server knows.
    pub(super) fn new(versions: &[String], uid: &'a str, desired: &'a str) -> Result<Self, String> {
        let known = |given: &String| KNOWN_VERSIONS.into_iter().find(|known| known == given);
        let version = versions.iter().find_map(known);
        let version = version.ok_or("no supported conversion review versions")?;
        Ok(Self { version, uid, desired })
    }

    /// The review as JSON.
    pub(super) fn body(&self, originals: &[Original]) -> Vec<u8> {
        let len: usize = originals.iter().map(|original| original.json.len() + 1).sum();
        let mut out = Vec::with_capacity(len + 400);
        let put = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
        put(&mut out, r#"{"kind":"ConversionReview","apiVersion":"#);
        push_text(&mut out, &self.api_version());
        put(&mut out, r#","request":{"uid":"#);
        push_text(&mut out, self.uid);
        put(&mut out, r#","desiredAPIVersion":"#);
        push_text(&mut out, self.desired);
        put(&mut out, r#","objects":["#);
        for (index, original) in originals.iter().enumerate() {
            put(&mut out, if index > 0 { "," } else { "" });
            out.extend_from_slice(&original.json);
        }
        put(&mut out, r#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#);
        out
    }

    fn api_version(&self) -> String {
        format!("{GROUP}/{}", self.version)
    }

    /// Reads the converted objects from a response. Their metadata is that of the originals, except for labels and
    /// annotations.
    pub(super) fn read(
        &self,
        answer: &WebhookAnswer,
        originals: &[Original],
    ) -> Result<Vec<Value>, BadAnswer> {
        let Some(first) = originals.first() else { return Ok(Vec::new()) };
        let failed = |why: String| format!("conversion webhook for {} failed: {why}", first.gvk());
        if let Some(why) = webhook_client::refusal(answer) {
            return Err(BadAnswer::Refused(failed(why)));
        }
        let converted = self.converted(answer).map_err(|why| BadAnswer::Content(failed(why)))?;
        if converted.len() != originals.len() {
            return Err(BadAnswer::Content(format!(
                "conversion webhook for {} returned {} objects, expected {}",
                first.gvk(),
                converted.len(),
                originals.len()
            )));
        }
        let objects = converted.into_iter().zip(originals);
        let objects = objects.map(|(converted, original)| self.checked(converted, original));
        objects.collect::<Result<_, String>>().map_err(BadAnswer::Content)
    }

    /// Returns the converted objects in a review, unparsed.
    fn converted<'b>(&self, answer: &'b WebhookAnswer) -> Result<Vec<&'b RawValue>, String> {
        let review = parse(answer)?;
        self.check_kind(&review)?;
        let response = review.response.filter(|response| response.get() != "null");
        let response = response.ok_or("no response provided")?;
        let response = members(response, "ConversionReview.response", "ConversionResponse", self.version)?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_strict = self.version == "v1";
        if is_strict
            && (review.kind.as_str(), review.api_version.as_str())
                != ("ConversionReview", &*self.api_version())
        {
            let (group, version) = split_api_version(&review.api_version);
            return Err(format!(
                "expected webhook response of {}, Kind=ConversionReview, got {group}/{version}, Kind={}",
                self.api_version(),
                review.kind
            ));
        }
        let result = result_of(&response)?;
        let uid = response.uid.map(|it| serde_json::from_str::<Value>(it.get()).unwrap_or_default());
        let uid = text(uid.as_ref());
        if is_strict && uid != self.uid {
            return Err(format!("expected response.uid={}, got {}", quote(self.uid), quote(&uid)));
        }
        let status = text(result.get("status"));
        if status != "Success" {
            let message = text(result.get("message"));
            return Err(match message.is_empty() {
                true => format!("response.result.status was '{status}', not 'Success'"),
                false => message,
            });
        }
        let Some(objects) = response.converted_objects else { return Ok(Vec::new()) };
        serde_json::from_str::<Option<Vec<&RawValue>>>(objects.get()).map(Option::unwrap_or_default).map_err(
            |_| {
                let what = go_kind(&serde_json::from_str(objects.get()).unwrap_or_default());
                unfit(what, "ConversionResponse.response.convertedObjects", "[]runtime.RawExtension")
            },
        )
    }

    /// Checks that the review has the expected kind, or one that can be decoded into it.
    fn check_kind(&self, review: &Review<'_>) -> Result<(), String> {
        let Review { api_version, kind, .. } = review;
        let known = KNOWN_VERSIONS.into_iter().find(|it| *api_version == format!("{GROUP}/{it}"));
        let unknown_kind = !kind.is_empty() && kind != "ConversionReview";
        if unknown_kind || !api_version.is_empty() && known.is_none() {
            let shown = if api_version.is_empty() { self.api_version() } else { api_version.clone() };
            return Err(format!(
                "no kind {} is registered for version {} in scheme {}",
                quote(kind),
                quote(&shown),
                quote(SCHEME)
            ));
        }
        match known {
            Some(given) if given != self.version => {
                let wanted = self.version;
                Err(format!(
                    "converting ({given}.ConversionReview) to ({wanted}.ConversionReview): unknown conversion"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks a converted object against its original, and restores the metadata that a webhook may not change.
    fn checked(&self, converted: &RawValue, original: &Original) -> Result<Value, String> {
        let mut object = unstructured(converted.get())?;
        let about = original.gvk();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&object["apiVersion"]);
        let version = group_version(&api_version);
        if version != self.desired {
            let desired = self.desired;
            return Err(format!(
                "conversion webhook for {about} returned invalid object at index 0: invalid groupVersion (expected \
                 {desired}, received {version})"
            ));
        }
        let kind = text(&object["kind"]);
        if kind != original.kind {
            let expected = &original.kind;
            return Err(format!(
                "conversion webhook for {about} returned invalid object at index 0: invalid kind (expected {expected}, \
                 received {kind})"
            ));
        }
        for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (expected, actual) = (text(&original.metadata[field]), text(&object["metadata"][field]));
            if expected != actual {
                return Err(format!(
                    "conversion webhook for {about} returned invalid object: must have the same {shown}: {expected} != \
                     {actual}"
                ));
            }
        }
        restore_metadata(&original.metadata, &mut object)
            .map_err(|why| format!("conversion webhook for {about} returned invalid metadata: {why}"))?;
        Ok(object)
    }
}

/// A ConversionReview, parsed only as far as needed.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow)]
    converted_objects: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// Parses a response as a review.
fn parse(answer: &WebhookAnswer) -> Result<Review<'_>, String> {
    let body = &*answer.body;
    if body.is_empty() {
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            answer.code, answer.content_type
        ));
    }
    let unreadable = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    if body.trim_ascii_start().first() != Some(&b'{') {
        // Kubernetes reads anything that does not look like a JSON object as YAML.
        let value = decode::parse_yaml(body, false).map_err(unreadable)?.object;
        return Err(decode::not_an_object(&value));
    }
    serde_json::from_slice(body).map_err(|error| {
        unreadable(decode::parse_json(body, false).err().unwrap_or_else(|| error.to_string()))
    })
}

fn members<'a>(raw: &'a RawValue, field: &str, of: &str, version: &str) -> Result<Response<'a>, String> {
    let value = raw.get();
    if !value.starts_with('{') {
        let what = go_kind(&serde_json::from_str(value).unwrap_or_default());
        return Err(unfit(what, field, &format!("{version}.{of}")));
    }
    serde_json::from_str(value).map_err(|error| error.to_string())
}

/// Returns the `result` of a response, or an empty map if it is missing.
fn result_of(response: &Response<'_>) -> Result<Map, String> {
    let result = response.result.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap_or_default());
    match result {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(result)) => Ok(result),
        // In both versions of the review, the Status is `meta.k8s.io/v1`.
        Some(other) => Err(unfit(go_kind(&other), "ConversionResponse.response.result", "v1.Status")),
    }
}

/// Returns Go's error for a value of the wrong type.
fn unfit(what: &str, field: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {what} into Go struct field {field} of type {wanted}")
}

/// Parses a converted object as Go does.
fn unstructured(raw: &str) -> Result<Value, String> {
    if raw == "null" {
        return Err("unexpected end of JSON input".to_owned());
    }
    let object = decode::parse_json(raw.as_bytes(), false)?.object;
    if !object.is_object() {
        let what = go_kind(&object);
        return Err(format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"));
    }
    match object["kind"].as_str() {
        None | Some("") => Err(format!("Object 'Kind' is missing in '{raw}'")),
        Some(_) => Ok(object),
    }
}

/// Returns an `apiVersion` as Go prints it after parsing: empty if it has more than one slash.
fn group_version(api_version: &str) -> &str {
    if api_version.matches('/').count() > 1 { "" } else { api_version }
}

/// Replaces an object's metadata by the original one, but keeps its labels and annotations.
fn restore_metadata(original: &Value, object: &mut Value) -> Result<(), String> {
    let answered = match object.get_mut("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(metadata)) => std::mem::take(metadata),
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", go::type_name(other)));
        }
    };
    let mut restored = original.as_object().cloned().unwrap_or_default();
    for (field, mut given) in ["labels", "annotations"].map(|field| (field, answered.get(field).cloned())) {
        let before = restored.remove(field);
        let Some(given) = given.take().filter(|given| !given.is_null()) else { continue };
        check_texts(field, &given)?;
        if before.as_ref() != Some(&given) {
            check_syntax(field, &given)?;
        }
        restored.insert(field.into(), given);
    }
    object["metadata"] = restored.into();
    Ok(())
}

/// Checks that labels or annotations are a map of strings.
fn check_texts(field: &str, given: &Value) -> Result<(), String> {
    let Some(map) = given.as_object() else {
        return Err(format!("invalid metadata.{field} of type {} in converted object", go::type_name(given)));
    };
    match map.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((key, value)) => {
            let what = go::type_name(value);
            Err(format!("metadata.{field}[{key}] must be a string, but is {what} in converted object"))
        }
    }
}

/// Checks the syntax of changed labels or annotations.
fn check_syntax(field: &str, given: &Value) -> Result<(), String> {
    let mut errors = Vec::new();
    match field {
        "labels" => selector::validate_labels(&Path::new("metadata").child("labels"), given, &mut errors),
        _ => {
            let metadata = evenkeel_schema::json::json!({ field: given });
            // The name of the field is misspelled like this in Kubernetes.
            object_meta::annotations(&Path::new("metadata").child("annotation"), &metadata, &mut errors);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(aggregate(&errors)) }
}
