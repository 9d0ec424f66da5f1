//! The Common Expression Language (CEL) as Kubernetes uses it: in the validation rules of custom resources, in admission
//! policies and in the match conditions of webhooks.
//!
//! An expression passes through these modules: `syntax` parses its text into a tree, `check` finds the type of every
//! node, `cost` bounds what a run can cost, and `eval` computes a value. Issues, costs and run-time errors carry the
//! messages of Kubernetes.
//!
//! The parser is that of the `cel` crate, whose grammar is the one that Kubernetes uses. The rest is our own: that crate has
//! no type checker and no bound on the cost of an evaluation, and its messages differ.
//!
//! ```
//! use evenkeel_cel::{Type, Value, compile, evaluate};
//! let checked = compile("size(name) <= 3", &[("name", Type::String)]).unwrap();
//! let (outcome, _cost) = evaluate(&checked, &[("name", Value::text("web"))]);
//! assert!(matches!(outcome, Ok(Value::Bool(true))));
//! ```

mod check;
mod cost;
mod escape;
mod eval;
mod issue;
mod library;
mod syntax;
mod types;
mod value;

pub use check::Checked;
pub use cost::estimate as estimate_cost;
pub use escape::escape;
pub use eval::run as evaluate;
pub use issue::Issues;
pub use types::{Declaration, Opaque as OpaqueType, Shape, Type};
pub use value::access::{Access, AccessDecision, AccessQuestion, Authorizer};
pub use value::equality::item_key;
pub use value::nesting::bounded;
pub use value::view::{JsonType, ListType, Schema, view};
pub use value::{Fault, Key, List, Map, Outcome, Text, Value};

/// Parses an expression that may use the given variables, and checks its types.
pub fn compile(source: &str, variables: &[(&str, Type)]) -> Result<Checked, Issues> {
    syntax::parse(source).and_then(|tree| check::check(source, tree, variables))
}

/// Parses and checks an expression of a mutating admission policy, which may also make the structs `Object` and `JSONPatch`.
pub fn compile_mutation(source: &str, variables: &[(&str, Type)]) -> Result<Checked, Issues> {
    syntax::parse(source).and_then(|tree| check::check_mutation(source, tree, variables))
}
