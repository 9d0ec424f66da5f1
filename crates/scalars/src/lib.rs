//! Kubernetes' scalar types: quantities, times and durations, names, and the formats of strings.
//!
//! Everything here is a pure function of text or of one JSON value. Patterns and printed values follow Go, because
//! Kubernetes' messages show them.

pub mod formats;
pub mod go;
pub mod go_regex;
pub mod names;
pub mod quantity;
pub mod time;
