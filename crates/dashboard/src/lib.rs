//! The dashboard: one page that shows a cluster, its operators, and why they do what they do.
//!
//! ```text
//! browser ─▶ origin ▸ session ─▶ page · record · API server, as the logged-in user · acts on the embedded cluster
//! ```
//! Everything that the page reads and writes goes to the API server as the user who logged in, so that RBAC decides.
//! The record and the acts on the embedded cluster need permission to `get` and `post` the path `/debug/evenkeel`.
//!
//! *Invariant:* without a session, only the login is served. A session ends after [`SESSION_MAX`].
//! *Invariant:* no other origin can use the dashboard. Requests must name this server as their host, browsers must
//! report this page as the origin, and no response permits another origin.
//! *Invariant:* no token is ever part of a URL. The code of a one-time link is in the fragment, which browsers do not
//! send, and is exchanged by POST.
//! *Invariant:* the dashboard serves plain HTTP, and therefore listens only on loopback addresses.

mod acts;
mod answer;
mod assets;
pub mod evidence;
mod origin;
mod server;
mod session;
mod source;

pub use assets::page_files;
pub use server::{Dashboard, DashboardError};
pub use session::SESSION_MAX;
pub use source::{Feed, Operator, Source};
