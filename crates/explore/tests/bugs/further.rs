//! Further bugs of the same patterns, which no report names.

mod claims;
mod errors;
mod jobs;
mod memory;
mod orphans;
mod plain;
mod polling;
mod rollouts;
mod scopes;
mod secrets;
mod several;
