//! Failures of the way to an application, which tests inject.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// What happens to a request to an application, as a test says by `Cluster::fail_http`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpFault {
    /// The connection is refused: the application gets nothing.
    Down,
    /// The application gets the request after this delay.
    Slow(Duration),
    /// The application gets the request, but its response never arrives.
    LostAnswer,
    /// Something else responds with status 200 and a web page.
    Nonsense,
    /// Something else responds with this status and no body.
    Status(u16),
}

/// The faults of a cluster's requests to applications. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct HttpFaults(Arc<Mutex<Vec<Armed>>>);

/// A fault for the next requests.
struct Armed {
    url_part: String,
    fault: HttpFault,
    times: usize,
}

impl HttpFaults {
    /// Lets the next `times` requests fail whose URL contains `url_part`.
    pub(crate) fn arm(&self, url_part: String, fault: HttpFault, times: usize) {
        self.0.lock().push(Armed { url_part, fault, times });
    }

    /// Returns the fault of a request to this URL.
    pub(crate) fn strike(&self, url: &str) -> Option<HttpFault> {
        let mut faults = self.0.lock();
        let armed = faults.iter_mut().find(|armed| armed.times > 0 && url.contains(&armed.url_part))?;
        if armed.times != usize::MAX {
            armed.times -= 1;
        }
        Some(armed.fault)
    }
}
