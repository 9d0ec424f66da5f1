//! What a request to the Kubernetes API asks for, read from its method, path and query.
//!
//! Kubernetes calls this the `RequestInfo`. API server, test kit and runtime all use this crate, so that a path that is
//! authorized, recorded, made to fail or turned into an RBAC rule is always understood in the same way.
//!
//! ```
//! use evenkeel_request_info::{ApiPath, RequestInfo};
//! use http::Method;
//!
//! let info = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/shop/pods?watch=true").unwrap();
//! assert_eq!(info.verb, "watch");
//! let ApiPath::Resource(path) = info.path else { unreachable!() };
//! assert_eq!((&*path.namespace, &*path.resource, &*path.name), ("shop", "pods", ""));
//! ```
//!
//! Parsing borrows from the request. Only text with escapes is copied.
//!
//! *Invariant:* no IO, no async, and no knowledge of which resources exist.

mod escape;
mod path;
mod query;
mod verb;

pub use escape::{percent_decode, query_decode};
pub use path::{ApiPath, Defect, ResourcePath, SpecialVerb};
pub use query::Query;
pub use verb::{RequestInfo, verb};
