//! The parts of the server that requests use.
//!
//! Each part is a module of its own that knows only what it depends on. The context of a request carries a reference
//! to all parts.

use std::sync::Arc;

use evenkeel_env::{Env, Station, Work};
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::Store;
use jiff::Timestamp;

use crate::access::Authorizer;
use crate::admission_registration::AdmissionRegistrations;
use crate::allocate::Allocator;
use crate::authenticate::Authentication;
use crate::crd::Definitions;
use crate::encoded_events::EncodedEvents;
use crate::object_cache::ObjectCache;
use crate::openapi::OpenApi;
use crate::panics::Panics;
use crate::{Header, Registry, WebhookCaller};

/// The parts of the server that requests use.
pub(crate) struct Services {
    pub(crate) store: Store<Header>,
    pub(crate) env: Env,
    /// The resources that are served.
    pub(crate) registry: Arc<Registry>,
    pub(crate) openapi: OpenApi,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Checks bearer tokens, and signs the tokens of service accounts.
    pub(crate) authentication: Authentication,
    /// The admission policies and webhooks that are configured.
    pub(crate) registrations: AdmissionRegistrations,
    /// Sends requests to admission webhooks. Without it no webhook can be reached.
    pub(crate) webhooks: Option<Arc<dyn WebhookCaller>>,
    /// The addresses and ports of services.
    pub(crate) allocator: Allocator,
    /// Watch events as they were encoded for other watchers.
    pub(crate) events: Arc<EncodedEvents>,
    /// Objects that were written recently, parsed.
    pub(crate) objects: ObjectCache,
    /// The CustomResourceDefinitions.
    pub(crate) definitions: Definitions,
    /// The ledger's station for requests that are not answered yet.
    pub(crate) requests: Station,
    pub(crate) panics: Panics,
}

impl Services {
    /// The time now, as objects carry it.
    pub(crate) fn now(&self) -> String {
        self.time(self.env.now())
    }

    /// A time as objects carry it: to the second.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        time::print(at, Precision::Seconds)
    }

    /// Enters work in the ledger that outlives the head of its request's response.
    pub(crate) fn hold(&self, what: &str) -> Work {
        self.requests.enter_with(what.to_owned())
    }
}
