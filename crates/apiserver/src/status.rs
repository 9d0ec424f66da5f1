//! Refusals: the `Status` object, with the reasons and the wording of Kubernetes.

pub(crate) use evenkeel_schema::field::quote;
use evenkeel_schema::field::{self, FieldError};
use serde::Serialize;

/// Shorthand for what may be refused.
pub type Result<T> = std::result::Result<T, Status>;

/// Why a request was refused; or, for deletions, that it was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason; empty where Kubernetes gives none.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// More about what was refused.
    pub details: Option<Box<Details>>,
    /// Whether it is answered as plain text, as paths outside of the API are.
    pub plain: bool,
    /// Where an expired list may go on, else empty.
    pub token: String,
}

/// More about a refusal.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of `kind`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// A kind or a plural name, as Kubernetes has it in each case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One for each single error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One single error.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cause {
    /// The machine-readable reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field in question.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct Wire<'a> {
    kind: &'a str,
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    metadata: serde_json::Map<String, serde_json::Value>,
    status: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

/// `plural` or `plural.group`: how messages name a resource.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Status {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, plain: false, token: String::new() }
    }

    /// The same with details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The JSON form.
    pub fn to_json(&self) -> Vec<u8> {
        let failed = self.code >= 400;
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata: self.metadata(),
            status: if failed { "Failure" } else { "Success" },
            message: &self.message,
            reason: self.reason,
            details: self.details.as_deref(),
            code: (failed || self.details.is_none()).then_some(self.code),
        };
        serde_json::to_vec(&wire).expect("a status is written to memory without fail")
    }

    fn metadata(&self) -> serde_json::Map<String, serde_json::Value> {
        let token = (!self.token.is_empty()).then(|| ("continue".to_owned(), self.token.clone().into()));
        token.into_iter().collect()
    }

    /// What took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message).with(Details::default())
    }

    /// Any malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Wrong credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// Not allowed for the user, or by admission. The message is complete.
    pub fn forbidden(group: &str, plural: &str, name: &str, message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message).with(Details::of(group, plural, name))
    }

    /// Refused by admission: `plural "name" is forbidden: why`.
    pub fn not_admitted(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let resource = qualified(plural, group);
        Self::forbidden(group, plural, name, format!("{resource} {} is forbidden: {why}", quote(name)))
    }

    /// The object is missing.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {} not found", qualified(plural, group), quote(name));
        Self::new(404, "NotFound", message).with(Details::of(group, plural, name))
    }

    /// The path names no resource of a known group.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default())
    }

    /// The path lies outside of the API.
    pub fn page_not_found() -> Self {
        Self::plain(404, "404 page not found\n")
    }

    /// A refusal in plain text.
    pub fn plain(code: u16, message: impl Into<String>) -> Self {
        Self { plain: true, ..Self::new(code, "", message) }
    }

    /// The path has a verb and no resource.
    pub fn no_request_info(path: &str) -> Self {
        let why = "unable to determine kind and namespace from url";
        let message =
            format!("Internal Server Error: {}: failed to create RequestInfo: {why}, {path}\n", quote(path));
        Self::plain(500, message)
    }

    /// The resource does not have this verb.
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with(Details::default())
    }

    /// The resource knows the verb but not for this use, such as creating by a patch.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::new(405, "MethodNotAllowed", message)
    }

    /// No representation that the client accepts. The message is complete.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// The name is taken.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {} already exists", qualified(plural, group), quote(name));
        Self::new(409, "AlreadyExists", message).with(Details::of(group, plural, name))
    }

    /// The write lost against another one, or its precondition does not hold.
    pub fn conflict(group: &str, kind: &str, name: &str, why: &str) -> Self {
        let resource = qualified(kind, group);
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(409, "Conflict", message).with(Details::of(group, kind, name))
    }

    /// An object, or the options of a request, with fields that are refused.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let causes = errors.iter().map(Cause::of).collect();
        let details = Details { causes, ..Details::of(group, kind, name) };
        Self::new(422, "Invalid", field::invalid_message(group, kind, name, errors)).with(details)
    }

    /// The revision is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The body is larger than what is read.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The body's media type is unknown.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Refused for now.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::new(429, "TooManyRequests", message).with(details)
    }

    /// Something failed that is not the client's fault, or that Kubernetes treats so. It carries no reason.
    pub fn server_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Something failed that is not the client's fault, with the reason InternalError.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let cause = Cause { message: message.to_string(), ..Cause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).with(details)
    }

    /// Not served yet.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The revision is in the future.
    pub fn too_large_resource_version(asked: u64, newest: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {newest}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        Self::new(504, "Timeout", message).with(details)
    }

    /// A deletion that was done.
    pub fn deleted(group: &str, plural: &str, name: &str, uid: &str) -> Self {
        let details = Details { uid: uid.to_owned(), ..Details::of(group, plural, name) };
        Self::new(200, "", "").with(details)
    }
}

impl Details {
    /// Of this object.
    pub fn of(group: &str, kind: &str, name: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned(), ..Self::default() }
    }
}

impl Cause {
    fn of(error: &FieldError) -> Self {
        Self { reason: error.kind.reason().to_owned(), message: error.body(), field: error.field.clone() }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
