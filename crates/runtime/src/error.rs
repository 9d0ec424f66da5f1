//! Errors: what a reconcile returns, and what an operation of the context fails with.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kube::core::Status;

use crate::owner::OwnerError;

/// Any error, boxed.
///
/// ```
/// use evenkeel_runtime::BoxError;
///
/// fn port(text: &str) -> Result<u16, BoxError> {
///     Ok(text.parse()?)
/// }
/// assert!(port("web").is_err());
/// ```
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What a reconcile returns; its error is [`Error`] unless another is named.
///
/// ```
/// use evenkeel_runtime::{Error, Result};
///
/// fn positive(number: i32) -> Result<i32> {
///     if number > 0 { Ok(number) } else { Err(Error::message("not positive")) }
/// }
/// assert!(positive(-1).is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a reconcile: any error, and how to go on after it.
///
/// Every `std::error::Error` becomes one by `?`. A reconcile may return errors of its own type instead (or
/// `anyhow::Error`); the directive of an [`Error`] anywhere in its chain of sources is still found.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::{Error, ErrorExt};
///
/// let port: Result<u16, _> = "x".parse::<u16>();
/// let error: Error = port.unwrap_err().terminal();
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// ```
pub struct Error {
    directed: Box<Directed>,
}

/// How to go on after an error.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::error::{ErrorExt, Retry, retry_of};
///
/// let busy = std::io::Error::other("busy").retry_after(Duration::from_secs(10));
/// assert_eq!(retry_of(busy.source()), Retry::Backoff); // what it wraps says nothing
/// let boxed: evenkeel_runtime::BoxError = busy.into();
/// assert_eq!(retry_of(&*boxed), Retry::After(Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// After the key's backoff.
    Backoff,
    /// After this delay, instead of the backoff, for this attempt.
    After(Duration),
    /// Not until the object changes.
    Never,
}

#[derive(Debug)]
struct Directed {
    retry: Retry,
    source: BoxError,
}

impl Error {
    /// An error from a message.
    pub fn message(message: impl Into<String>) -> Self {
        Self::with(Retry::Backoff, message.into().into())
    }

    /// An error that is boxed already.
    pub fn from_boxed(error: BoxError) -> Self {
        Self::with(Retry::Backoff, error)
    }

    fn with(retry: Retry, source: BoxError) -> Self {
        Self { directed: Box::new(Directed { retry, source }) }
    }

    /// The error itself.
    pub fn source(&self) -> &(dyn StdError + 'static) {
        self.directed.source.as_ref()
    }

    /// The answer of the API server in the chain of this error, where there is one.
    pub fn status(&self) -> Option<&Status> {
        status_in(self.source())
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::with(Retry::Backoff, Box::new(error))
    }
}

impl From<Error> for BoxError {
    fn from(error: Error) -> Self {
        error.directed
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directed.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self.directed.as_ref()))
    }
}

impl fmt::Display for Directed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for Directed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_ref())
    }
}

/// What the error, or one it came from, says about the next attempt.
pub fn retry_of(error: &(dyn StdError + 'static)) -> Retry {
    let directives = sources(error).filter_map(|error| error.downcast_ref::<Directed>());
    let mut asked = directives.map(|directed| directed.retry).filter(|retry| *retry != Retry::Backoff);
    asked.next().unwrap_or(Retry::Backoff)
}

/// The error and all it came from, joined by `: `, without repetitions.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for source in sources(error).skip(1) {
        // What the API server said is told by its message; the rest of its answer repeats it.
        let status = status_of(source);
        let source = status.map_or_else(|| source.to_string(), |status| status.message.clone());
        if !text.contains(&source) {
            text.push_str(": ");
            text.push_str(&source);
        }
        if status.is_some() {
            break;
        }
    }
    text
}

fn sources<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

/// Whether the server refused because the object was changed or made by somebody else meanwhile.
pub(crate) fn is_conflict(error: &(dyn StdError + 'static)) -> bool {
    let finalizers = sources(error).any(|error| error.is::<crate::finalizer::FinalizersChanged>());
    finalizers || status_in(error).is_some_and(|status| status.code == 409)
}

/// Whether the server knows no object of this name.
pub(crate) fn is_gone(error: &(dyn StdError + 'static), name: &str) -> bool {
    let named = |status: &Status| status.details.as_ref().is_some_and(|details| details.name == name);
    status_in(error).is_some_and(|status| status.code == 404 && named(status))
}

fn status_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    sources(error).find_map(status_of)
}

fn status_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    // A source that is boxed in its error comes as the box.
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>().or_else(boxed) {
        return Some(status);
    }
    error.downcast_ref::<ContextError>().and_then(ContextError::status)
}

/// Says how to go on after any error.
///
/// ```
/// use evenkeel_runtime::{ErrorExt, Result};
///
/// fn port(text: &str) -> Result<u16> {
///     text.parse::<u16>().map_err(|error| error.terminal()) // no retry mends it
/// }
/// assert!(port("x").is_err());
/// ```
pub trait ErrorExt: Into<BoxError> + Sized {
    /// Counted and reported, but not retried until the object changes.
    fn terminal(self) -> Error {
        Error::with(Retry::Never, self.into())
    }

    /// Retried after `delay` instead of the backoff, for this attempt.
    fn retry_after(self, delay: Duration) -> Error {
        Error::with(Retry::After(delay), self.into())
    }
}

impl<E: Into<BoxError>> ErrorExt for E {}

/// Answers of the API server that are often no error.
///
/// ```no_run
/// use evenkeel_runtime::{Context, Result, ResultExt};
/// use k8s_openapi::api::core::v1::Secret;
///
/// async fn create_once(ctx: &Context, secret: Secret) -> Result<bool> {
///     Ok(ctx.create(secret).await.ignore_already_exists()?.is_some())
/// }
/// ```
pub trait ResultExt<T, E>: Sized {
    /// `None` where the object was not found.
    fn ignore_not_found(self) -> Result<Option<T>, E>;

    /// `None` where the object existed already.
    fn ignore_already_exists(self) -> Result<Option<T>, E>;

    /// See [`ErrorExt::terminal`].
    fn terminal(self) -> Result<T>;

    /// See [`ErrorExt::retry_after`].
    fn retry_after(self, delay: Duration) -> Result<T>;
}

impl<T, E: ApiStatus + Into<BoxError>> ResultExt<T, E> for std::result::Result<T, E> {
    fn ignore_not_found(self) -> Result<Option<T>, E> {
        ignore(self, |status| status.code == 404)
    }

    fn ignore_already_exists(self) -> Result<Option<T>, E> {
        ignore(self, |status| status.reason == "AlreadyExists")
    }

    fn terminal(self) -> Result<T> {
        self.map_err(ErrorExt::terminal)
    }

    fn retry_after(self, delay: Duration) -> Result<T> {
        self.map_err(|error| error.retry_after(delay))
    }
}

fn ignore<T, E: ApiStatus>(
    result: std::result::Result<T, E>,
    ignored: impl Fn(&Status) -> bool,
) -> Result<Option<T>, E> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.api_status().is_some_and(ignored) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Errors that may hold an answer of the API server.
///
/// ```
/// use evenkeel_runtime::error::ApiStatus;
/// use kube::core::Status;
///
/// let error = kube::Error::Api(Status::failure("gone", "NotFound").with_code(404).boxed());
/// assert_eq!(error.api_status().map(|status| status.code), Some(404));
/// ```
pub trait ApiStatus {
    /// The answer, where there is one.
    fn api_status(&self) -> Option<&Status>;
}

impl ApiStatus for kube::Error {
    fn api_status(&self) -> Option<&Status> {
        status_of(self)
    }
}

impl ApiStatus for ContextError {
    fn api_status(&self) -> Option<&Status> {
        self.status()
    }
}

impl ApiStatus for Error {
    fn api_status(&self) -> Option<&Status> {
        self.status()
    }
}

/// An operation of a [`Context`](crate::Context) failed.
///
/// ```no_run
/// use evenkeel_runtime::{Context, ContextError};
/// use k8s_openapi::api::core::v1::Secret;
///
/// async fn save(ctx: &Context, secret: &Secret) -> Result<(), ContextError> {
///     match ctx.update(secret).await {
///         Err(error) if error.is_conflict() => Ok(()), // the next event brings the newer object
///         other => other.map(drop),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The API server refused, or could not be reached.
    #[error("{verb} {kind} {object}: {}", api_message(source))]
    Api {
        /// What was tried.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The object.
        object: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// The kind is not in a cache that this controller declared.
    #[error(
        "read {kind}: this controller declared no cache of it; declare one with owns, watches or reads, or read live \
         with Context::fetch"
    )]
    Undeclared {
        /// The kind that was asked for.
        kind: String,
    },
    /// The cache keeps no such index. An empty answer would look as if there were no such objects.
    #[error(
        "read by index {index:?}: the cache has {}; declare it with Controller::index, Controller::owns (for owners) \
         or Source::index",
        listed(kept)
    )]
    UndeclaredIndex {
        /// The index that was asked for.
        index: String,
        /// Those that there are.
        kept: Vec<String>,
    },
    /// The owner reference cannot be set.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The object has no name.
    #[error("{verb} {kind}: the object has no name")]
    Unnamed {
        /// What was tried.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
    },
    /// The object cannot be written as JSON.
    #[error("encode {kind}")]
    Encode {
        /// The kind of the object.
        kind: String,
        /// What serde said.
        source: serde_json::Error,
    },
    /// Writes have ended: the manager stops, or lost its leadership.
    #[error("{verb} {kind} {object}: not sent, {why}")]
    Fenced {
        /// What was tried.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The object.
        object: String,
        /// Why nothing may be sent.
        why: &'static str,
    },
}

/// These names, for a message.
fn listed(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}

impl ContextError {
    /// The answer of the API server, where there was one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the object was not found.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Whether the object existed already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Whether the object was changed by someone else since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "Conflict")
    }

    /// Whether the server took the object itself for wrong: the same request will be refused again.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(|status| status.code == 400 || status.code == 422)
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("own error")]
    struct Own(#[source] BoxError);

    #[test]
    fn a_directive_is_found_anywhere_in_the_chain() {
        let inner = Error::message("quota").directed.source.retry_after(Duration::from_secs(10));
        let own = Own(inner.into());
        assert_eq!(retry_of(&own), Retry::After(Duration::from_secs(10)));
        assert_eq!(chain(&own), "own error: quota");
    }

    #[test]
    fn not_found_is_ignored_on_request() {
        let missing = || kube::Error::Api(Status::failure("gone", "NotFound").with_code(404).boxed());
        assert!(matches!(Err::<(), _>(missing()).ignore_not_found(), Ok(None)));
        assert!(Err::<(), _>(missing()).ignore_already_exists().is_err());
        let refused = |reason: &str| kube::Error::Api(Status::failure("x", reason).with_code(409).boxed());
        assert!(matches!(Err::<(), _>(refused("AlreadyExists")).ignore_already_exists(), Ok(None)));
        assert!(Err::<(), _>(refused("Conflict")).ignore_already_exists().is_err(), "another 409");
        assert!(Err::<(), _>(refused("AlreadyExists")).ignore_not_found().is_err());
        let error: Error = missing().into();
        assert_eq!(error.status().map(|status| status.code), Some(404));
    }

    #[test]
    fn what_is_gone_is_known_by_its_name() {
        let status = serde_json::json!({"status": "Failure", "code": 404, "details": {"name": "web"}});
        let status: Status = serde_json::from_value(status).unwrap();
        let own = Own(kube::Error::Api(status.boxed()).into());
        assert!(is_gone(&own, "web"));
        assert!(!is_gone(&own, "web-1"));
    }
}
