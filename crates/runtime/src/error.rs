//! Errors: what a reconcile returns, and what reads and writes through its context fail with.

mod context;
mod finalizer;
mod retry;

pub use context::ContextError;
pub use finalizer::{FinalizerError, FinalizersChanged};
pub use retry::{Retry, WithRetry, retry_of};

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kube::core::Status;

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

/// A `Result` whose error is [`Error`] unless another is named. A reconcile may return any other `Result` as well.
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

/// Any error of a reconcile, boxed.
///
/// Every `std::error::Error` becomes one by `?`. A reconcile may as well return `anyhow::Error` or an error type of
/// your own. Each of them keeps what [`ErrorExt::terminal`] and [`ErrorExt::retry_after`] say about the next attempt.
///
/// ```
/// use evenkeel_runtime::{ErrorExt, Result};
///
/// fn port(text: &str) -> Result<u16> {
///     Ok(text.parse::<u16>().map_err(|error| error.terminal())?)
/// }
/// assert_eq!(port("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Error(BoxError);

impl Error {
    /// An error from a message.
    pub fn message(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// An error that is boxed already.
    pub fn from_boxed(error: BoxError) -> Self {
        Self(error)
    }

    /// The error as `std::error::Error`, which this type cannot implement beside its conversion from every error.
    pub fn as_std(&self) -> &(dyn StdError + 'static) {
        self.0.as_ref()
    }

    /// The `Status` that the API server answered with, if one is in the chain of this error.
    pub fn status(&self) -> Option<&Status> {
        status_in(self.as_std())
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl From<Error> for BoxError {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self.as_std()))
    }
}

/// The messages of an error and of its sources, joined by `: `, without repetitions.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for source in sources(error).skip(1).filter(|source| !retry::is_directive(*source)) {
        // The message of a `Status` says it all; its other fields repeat the message.
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

/// Whether the API server refused a write because another writer changed or created the object meanwhile.
pub(crate) fn is_conflict(error: &(dyn StdError + 'static)) -> bool {
    let finalizers = sources(error).any(|error| error.is::<FinalizersChanged>());
    finalizers || status_in(error).is_some_and(|status| status.code == 409)
}

/// Whether the API server answered that no object of this name exists.
pub(crate) fn is_gone(error: &(dyn StdError + 'static), name: &str) -> bool {
    let named = |status: &Status| status.details.as_ref().is_some_and(|details| details.name == name);
    status_in(error).is_some_and(|status| status.code == 404 && named(status))
}

fn status_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    sources(error).find_map(status_of)
}

fn status_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    // Where an error boxes its source, the link of the chain is the box.
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>().or_else(boxed) {
        return Some(status);
    }
    error.downcast_ref::<ContextError>().and_then(ContextError::status)
}

/// Says when to retry, on any error.
///
/// ```
/// use evenkeel_runtime::{ErrorExt, Result};
///
/// fn port(text: &str) -> Result<u16> {
///     Ok(text.parse::<u16>().map_err(|error| error.terminal())?) // no retry turns the text into a number
/// }
/// assert!(port("x").is_err());
/// ```
pub trait ErrorExt: Into<BoxError> + Sized {
    /// The error is counted and logged; the key is not retried until a watched object changes.
    fn terminal(self) -> WithRetry {
        WithRetry::new(Retry::Never, self.into())
    }

    /// The key is retried after `delay` instead of its backoff, for this attempt.
    fn retry_after(self, delay: Duration) -> WithRetry {
        WithRetry::new(Retry::After(delay), self.into())
    }
}

impl<E: Into<BoxError>> ErrorExt for E {}

/// Says when to retry, and turns answers of the API server that are often expected into `None`.
///
/// ```no_run
/// use evenkeel_runtime::{Ctx, Result, ResultExt};
/// use k8s_openapi::api::core::v1::Secret;
///
/// async fn create_once(ctx: &Ctx, secret: Secret) -> Result<bool> {
///     Ok(ctx.create(secret).await.ignore_already_exists()?.is_some())
/// }
/// ```
pub trait ResultExt<T, E>: Sized {
    /// Returns `None` if the API server found no such object, instead of an error.
    fn ignore_not_found(self) -> Result<Option<T>, E>
    where
        E: ApiStatus;

    /// Returns `None` if an object of this name already exists, instead of an error.
    fn ignore_already_exists(self) -> Result<Option<T>, E>
    where
        E: ApiStatus;

    /// See [`ErrorExt::terminal`].
    fn terminal(self) -> Result<T, WithRetry>
    where
        E: Into<BoxError>;

    /// See [`ErrorExt::retry_after`].
    fn retry_after(self, delay: Duration) -> Result<T, WithRetry>
    where
        E: Into<BoxError>;
}

impl<T, E> ResultExt<T, E> for Result<T, E> {
    fn ignore_not_found(self) -> Result<Option<T>, E>
    where
        E: ApiStatus,
    {
        ignore(self, |status| status.code == 404)
    }

    fn ignore_already_exists(self) -> Result<Option<T>, E>
    where
        E: ApiStatus,
    {
        ignore(self, |status| status.reason == "AlreadyExists")
    }

    fn terminal(self) -> Result<T, WithRetry>
    where
        E: Into<BoxError>,
    {
        self.map_err(ErrorExt::terminal)
    }

    fn retry_after(self, delay: Duration) -> Result<T, WithRetry>
    where
        E: Into<BoxError>,
    {
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

/// Errors that may carry a `Status` of the API server.
///
/// ```
/// use evenkeel_runtime::error::ApiStatus;
/// use kube::core::Status;
///
/// let error = kube::Error::Api(Status::failure("gone", "NotFound").with_code(404).boxed());
/// assert_eq!(error.api_status().map(|status| status.code), Some(404));
/// ```
pub trait ApiStatus {
    /// The `Status`, if the API server answered with one.
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

/// The message of a panic.
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
        let inner = std::io::Error::other("quota").retry_after(Duration::from_secs(10));
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
