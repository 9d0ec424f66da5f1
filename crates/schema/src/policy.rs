//! Admission policies and the conditions of webhooks in CEL, as pure functions from a request to a verdict.
//!
//! Which requests a policy is about, and where its parameters are, is the API server's to find out.

pub use crate::structural::conditions::Conditions;
pub use crate::structural::mutation::MutatingPolicy;
pub use crate::structural::policy::{Denial, Inputs, Policy, Verdict};
pub use crate::structural::type_check::{Warning, type_check};
