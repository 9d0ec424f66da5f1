//! When a key is reconciled again after an error.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::{BoxError, sources};

/// When a key is reconciled again after an error.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::error::{ErrorExt, Retry, retry_of};
///
/// let busy = std::io::Error::other("busy").retry_after(Duration::from_secs(10));
/// assert_eq!(retry_of(&busy), Retry::After(Duration::from_secs(10)));
/// assert_eq!(retry_of(&std::io::Error::other("busy")), Retry::Backoff);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// After the key's backoff.
    Backoff,
    /// After this delay instead of the backoff, for this attempt.
    After(Duration),
    /// Not until a watched object changes.
    Never,
}

/// An error together with when to retry: what [`ErrorExt`](super::ErrorExt) makes of any error.
///
/// This is a `std::error::Error`, so that `?` turns it into `anyhow::Error`, into [`Error`](super::Error), or into
/// an error type of your own.
///
/// ```
/// use evenkeel_runtime::ErrorExt;
/// use evenkeel_runtime::error::WithRetry;
///
/// fn port(text: &str) -> Result<u16, WithRetry> {
///     text.parse::<u16>().map_err(|error| error.terminal())
/// }
/// assert_eq!(port("web").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct WithRetry {
    directive: Box<Directive>,
}

/// The second link in the chain of sources of a [`WithRetry`].
///
/// `anyhow::Error` hides the type of its first link when it becomes a `Box<dyn Error>`, so that a downcast to
/// [`WithRetry`] may fail where one to this type succeeds.
#[derive(Debug)]
struct Directive {
    retry: Retry,
    error: BoxError,
}

impl WithRetry {
    pub(super) fn new(retry: Retry, error: BoxError) -> Self {
        Self { directive: Box::new(Directive { retry, error }) }
    }

    /// When to retry.
    pub fn retry(&self) -> Retry {
        self.directive.retry
    }
}

impl fmt::Display for WithRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directive.error.fmt(f)
    }
}

impl fmt::Debug for WithRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::chain(self))
    }
}

impl StdError for WithRetry {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.directive)
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry {
            Retry::Backoff => f.write_str("retried after the backoff"),
            Retry::After(delay) => write!(f, "retried after {delay:?}"),
            Retry::Never => f.write_str("not retried until a watched object changes"),
        }
    }
}

impl StdError for Directive {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.error)
    }
}

/// Reads from the chain of an error when to retry: the outermost [`WithRetry`] decides, [`Retry::Backoff`] if there
/// is none.
pub fn retry_of(error: &(dyn StdError + 'static)) -> Retry {
    let directives = sources(error).filter_map(|error| error.downcast_ref::<Directive>());
    let mut asked = directives.map(|directive| directive.retry).filter(|retry| *retry != Retry::Backoff);
    asked.next().unwrap_or(Retry::Backoff)
}

/// Whether this link of a chain of errors only says when to retry, and so is left out of the message.
pub(super) fn is_directive(error: &(dyn StdError + 'static)) -> bool {
    error.is::<Directive>()
}
