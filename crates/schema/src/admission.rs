//! Admission policies and the match conditions of webhooks in CEL, as pure functions from a request to a verdict.
//!
//! The API server finds out which requests a policy matches, and reads its parameters.

mod environment;
mod expression;
mod match_conditions;
mod mutating_policy;
mod type_check;
mod validating_policy;

pub(crate) use environment::Environment;
pub use evenkeel_cel::{AccessDecision, AccessQuestion, Authorizer};
pub use expression::Inputs;
pub(crate) use expression::{Expected, check_expression};
pub use match_conditions::MatchConditions;
pub use mutating_policy::MutatingPolicy;
pub use type_check::{Warning, type_check};
pub use validating_policy::{Denial, Policy, Verdict};
