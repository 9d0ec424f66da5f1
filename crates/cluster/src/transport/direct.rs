//! The director of a cluster, which decides what happens to each request. Exploration plays its plans through a
//! director.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Unsettled;
use futures::future::BoxFuture;
use http::Method;
use parking_lot::RwLock;

use super::fault::{Fault, is_write};

/// Decides what happens to the requests of a cluster's clients, and acts when the cluster has come to rest.
///
/// A cluster has at most one director; see `Cluster::direct`.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cluster::{Director, Directed, Fault, Verdict};
/// use k8s_openapi::api::core::v1::Namespace;
///
/// /// Lets every read of the test fail.
/// struct Deaf;
///
/// impl Director for Deaf {
///     fn request(&self, request: &Directed<'_>) -> Verdict {
///         if request.by == "client" { Verdict::Fail(Fault::InternalError) } else { Verdict::Serve }
///     }
/// }
///
/// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
/// cluster.direct(Some(Arc::new(Deaf)));
/// assert!(cluster.get::<Namespace>("default").await.is_err());
/// cluster.direct(None);
/// assert!(cluster.get::<Namespace>("default").await.is_ok());
/// # });
/// ```
pub trait Director: Send + Sync {
    /// Decides what happens to a request before it is sent.
    fn request(&self, request: &Directed<'_>) -> Verdict {
        let _ = request;
        Verdict::Serve
    }

    /// Called when a wait for rest (`Cluster::settled`) finds the cluster at rest. Returns whether the director has
    /// disturbed the cluster, so that the wait must go on.
    fn rested(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Returns how long the next wait for rest may take, or `None` for the cluster's limit.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Called when a wait for rest has failed. Returns whether that was expected, so that the cluster counts as at
    /// rest: an operator with a lagging view may retry until the view catches up.
    fn unsettled(&self, unsettled: &Unsettled) -> bool {
        let _ = unsettled;
        false
    }
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Directed<'a> {
    /// The client: the name of an operator, or `client` for the test itself.
    pub by: &'a str,
    /// Whether the client is an operator of the test or the built-in controllers.
    pub is_operator: bool,
    /// The HTTP method.
    pub method: &'a Method,
    /// Kubernetes' verb for the request, or `apply` for a server-side apply.
    pub verb: &'static str,
    /// Path and query.
    pub path: &'a str,
}

impl Directed<'_> {
    /// Whether the request can change something.
    pub fn is_write(&self) -> bool {
        is_write(self.method)
    }

    /// Whether the request is a watch that begins with a list of the existing objects, as informers send it.
    pub fn begins_with_list(&self) -> bool {
        self.verb == "watch" && self.path.contains("sendInitialEvents=true")
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The request is served.
    Serve,
    /// The request fails.
    Fail(Fault),
    /// The operator that sends the request crashes. Has no effect on requests of other clients.
    Crash(CrashMoment),
    /// A list, or a watch that begins with one, is answered by an API server that has seen everything up to this revision
    /// and nothing later. Later changes of the kind are held until `Cluster::release_watches`. Other requests are served
    /// normally.
    ViewAt(u64),
    /// The request arrives late: after everything in progress that takes no longer than [`Verdict::LATE`].
    DelayRequest,
    /// The request is served at once, but its response arrives late.
    DelayAnswer,
    /// The request is served at once, and its answer arrives after this time.
    SlowAnswer(Duration),
}

impl Verdict {
    /// How late a delayed request or response is: later than the first phases of a pod (50 ms each), and earlier than
    /// any timeout.
    pub const LATE: Duration = Duration::from_millis(200);
}

/// When an operator crashes at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashMoment {
    /// Before the request is sent.
    Before,
    /// After the server has served the request, before the response arrives.
    Unanswered,
    /// After the response has arrived: at the next request, or when nothing else is left to do.
    After,
}

/// Holds the director of the cluster.
#[derive(Default)]
pub(crate) struct Direction {
    director: RwLock<Option<Arc<dyn Director>>>,
}

impl Direction {
    pub(crate) fn set(&self, director: Option<Arc<dyn Director>>) {
        *self.director.write() = director;
    }

    pub(crate) fn director(&self) -> Option<Arc<dyn Director>> {
        self.director.read().clone()
    }
}
