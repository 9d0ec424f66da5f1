//! Generates Rust types from an existing CustomResourceDefinition, and checks that they describe the same definition.
//!
//! [`generate`] turns definitions into Rust source that needs `kube`, `k8s-openapi`, `schemars`, `serde` and
//! `serde_json`. The source has a function `definition()` for every definition, which returns the
//! CustomResourceDefinition that the types describe. [`compare`](compare()) compares that with the original and lists
//! everything that differs in meaning. Nothing here reads files, runs a compiler or uses the network.
//!
//! ```
//! let definition = serde_json::json!({
//!     "apiVersion": "apiextensions.k8s.io/v1",
//!     "kind": "CustomResourceDefinition",
//!     "metadata": {"name": "ships.example.com"},
//!     "spec": {
//!         "group": "example.com", "scope": "Namespaced",
//!         "names": {"kind": "Ship", "plural": "ships"},
//!         "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
//!             "type": "object", "required": ["spec"],
//!             "properties": {"spec": {"type": "object", "properties": {"sails": {"type": "integer", "format": "int32"}}}},
//!         }}}],
//!     },
//! });
//! let types = evenkeel_codegen::generate(&[definition], Default::default()).unwrap();
//! assert!(types.source.contains("pub sails: Option<i32>,"));
//! assert!(types.notes.is_empty());
//! ```

mod compare;
mod crates;
mod definition;
mod docs;
mod error;
mod field;
mod item;
mod literal;
mod meaning;
mod names;
mod plan;
mod preamble;
mod root;
mod source;
mod whole;

pub use compare::{Difference, compare};
pub use crates::Crates;
pub use error::GenerateError;
pub use source::{Generated, Note, generate};
