//! Errors of the API: the `Status` object, with Kubernetes' reasons and messages.

use evenkeel_schema::field::{self, FieldError};
pub(crate) use evenkeel_schema::go::quote;
use serde::Serialize;

/// The result of an operation that may be refused with a [`Status`].
pub type Result<T> = std::result::Result<T, Status>;

/// Why a request was refused, or that a deletion succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason; empty if Kubernetes gives none.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// Details about the error.
    pub details: Option<Box<Details>>,
    /// Whether the response is plain text, as for paths outside of the API.
    pub plain: bool,
    /// The continue token with which a client may resume an expired list; otherwise empty.
    pub token: String,
}

/// The `details` of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of `kind`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// A kind or a plural name, whichever Kubernetes uses for the error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single errors, such as one for each invalid field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// After how many seconds the client may retry; zero if not given.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One of several errors in a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cause {
    /// The machine-readable reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field with the error.
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
    metadata: evenkeel_schema::json::Map,
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

/// Formats a resource as `plural` or `plural.group`, as error messages do.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Status {
    /// Creates a status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, plain: false, token: String::new() }
    }

    /// Sets the details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Encodes the status as JSON.
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
        serde_json::to_vec(&wire).expect("writing a status to memory cannot fail")
    }

    fn metadata(&self) -> evenkeel_schema::json::Map {
        let token = (!self.token.is_empty()).then(|| ("continue", self.token.clone()));
        token.into_iter().collect()
    }

    /// The request took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message).with(Details::default())
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Authentication failed.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The user or an admission plugin forbids the request. `message` is the complete message.
    pub fn forbidden(group: &str, plural: &str, name: &str, message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message).with(Details::of(group, plural, name))
    }

    /// Admission refuses the request: `plural "name" is forbidden: why`.
    pub fn not_admitted(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let resource = qualified(plural, group);
        Self::forbidden(group, plural, name, format!("{resource} {} is forbidden: {why}", quote(name)))
    }

    /// The object does not exist.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {} not found", qualified(plural, group), quote(name));
        Self::new(404, "NotFound", message).with(Details::of(group, plural, name))
    }

    /// The path names an unknown resource of a known group.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default())
    }

    /// The path is outside of the API and not served.
    pub fn page_not_found() -> Self {
        Self::plain(404, "404 page not found\n")
    }

    /// Creates an error in plain text.
    pub fn plain(code: u16, message: impl Into<String>) -> Self {
        Self { plain: true, ..Self::new(code, "", message) }
    }

    /// The path has a verb but no resource.
    pub fn no_request_info(path: &str) -> Self {
        let why = "unable to determine kind and namespace from url";
        let message =
            format!("Internal Server Error: {}: failed to create RequestInfo: {why}, {path}\n", quote(path));
        Self::plain(500, message)
    }

    /// The resource does not support this verb.
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with(Details::default())
    }

    /// The resource supports the verb but not this use of it, such as creating an object with a merge patch.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::new(405, "MethodNotAllowed", message)
    }

    /// None of the accepted media types can be served. `message` is the complete message.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// An object with this name exists.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {} already exists", qualified(plural, group), quote(name));
        Self::new(409, "AlreadyExists", message).with(Details::of(group, plural, name))
    }

    /// The write lost a race against another one, or its precondition does not hold.
    pub fn conflict(group: &str, kind: &str, name: &str, why: &str) -> Self {
        let resource = qualified(kind, group);
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(409, "Conflict", message).with(Details::of(group, kind, name))
    }

    /// An object, or the options of a request, has invalid fields.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let causes = errors.iter().map(Cause::of).collect();
        let details = Details { causes, ..Details::of(group, kind, name) };
        Self::new(422, "Invalid", field::invalid_message(group, kind, name, errors)).with(details)
    }

    /// The revision is no longer available.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The request body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The media type of the request body is not supported.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The server is too busy; the client should retry later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::new(429, "TooManyRequests", message).with(details)
    }

    /// An internal error, or one that Kubernetes reports as such, without a reason.
    pub fn server_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// An internal error with the reason `InternalError`.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let cause = Cause { message: message.to_string(), ..Cause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).with(details)
    }

    /// The server cannot serve the request yet.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The requested resource version is newer than the newest revision.
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

    /// An object was deleted.
    pub fn deleted(group: &str, plural: &str, name: &str, uid: &str) -> Self {
        let details = Details { uid: uid.to_owned(), ..Details::of(group, plural, name) };
        Self::new(200, "", "").with(details)
    }
}

impl Details {
    /// Details that name an object.
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
