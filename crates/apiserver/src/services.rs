//! The parts of the server that requests use.
//!
//! Each part is in a module of its own and knows only its dependencies. The context of a request refers to
//! all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_env::{Env, Station, Work};
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::Store;
use jiff::Timestamp;
use parking_lot::RwLock;

use crate::access::Authorizer;
use crate::admission_registration::AdmissionRegistrations;
use crate::allocate::Allocator;
use crate::authenticate::Authentication;
use crate::body::Body;
use crate::conversion::Converter;
use crate::crd::Definitions;
use crate::encoded_events::EncodedEvents;
use crate::metrics::Metrics;
use crate::node_api::NodeApi;
use crate::object_cache::ObjectCache;
use crate::openapi::OpenApi;
use crate::panics::Panics;
use crate::webhook_client::WebhookClient;
use crate::{Header, Registry};

/// The parts of the server that requests use.
pub(crate) struct Services {
    pub(crate) store: Store<Header>,
    pub(crate) env: Env,
    /// The served resources.
    pub(crate) registry: Arc<Registry>,
    pub(crate) openapi: OpenApi,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Authenticates bearer tokens and issues service account tokens.
    pub(crate) authentication: Authentication,
    /// The compiled admission policies and webhooks.
    pub(crate) registrations: AdmissionRegistrations,
    /// Calls admission and conversion webhooks.
    pub(crate) webhooks: Arc<WebhookClient>,
    /// Converts objects between the versions of their kind.
    pub(crate) converter: Converter,
    /// Allocates the cluster IPs and node ports of services.
    pub(crate) allocator: Allocator,
    /// The cache of encoded watch events.
    pub(crate) events: Arc<EncodedEvents>,
    /// The cache of recently written objects.
    pub(crate) objects: ObjectCache,
    /// Processes the CRDs.
    pub(crate) definitions: Definitions,
    /// The ledger's station for requests whose response headers have not been sent yet.
    pub(crate) requests: Station,
    pub(crate) panics: Panics,
    pub(crate) metrics: Metrics,
    /// When the server started.
    pub(crate) started: Timestamp,
    /// The settings that `/flagz` shows, by name.
    pub(crate) flags: BTreeMap<String, String>,
    /// The nodes, which are asked what containers print and do. `None` if the server has none.
    pub(crate) nodes: Option<Arc<dyn NodeApi>>,
    /// The pages that the process of the server adds, by path.
    pub(crate) pages: RwLock<BTreeMap<String, Page>>,
}

/// Makes the media type and the body of a page.
pub(crate) type Page = Arc<dyn Fn() -> (&'static str, Body) + Send + Sync>;

impl Services {
    /// The current time, in the form of object metadata.
    pub(crate) fn now(&self) -> String {
        self.time(self.env.now())
    }

    /// A time in the form of object metadata: in whole seconds.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        time::print(at, Precision::Seconds)
    }

    /// Enters work into the ledger that continues after the response headers have been sent.
    pub(crate) fn hold(&self, what: &str) -> Work {
        self.requests.enter_with(what.to_owned())
    }
}
