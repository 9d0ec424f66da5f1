//! What is wrong with a body before anything is validated: unknown and repeated fields, and values of a wrong type.
//!
//! Kubernetes decodes a body into a Go struct. [`decode`] tells what that decoder would say about it, in its words
//! and in the order of the text; [`convert`] does the same for what a strategic merge patch made, which goes through
//! another door.

mod convert;
mod decode;
mod fits;
mod go_type;

pub use convert::convert;
pub use decode::{decode, decode_value};
pub use fits::fits;

/// What decoding an object found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// `unknown field "spec.x"` and `duplicate field "spec.x"`: refused by strict validation only, else warned of.
    pub strict: Vec<String>,
    /// Why the object cannot be decoded at all.
    pub refusal: Option<String>,
}

/// More strict errors than this are not told.
const STRICT_MAX: usize = 100;

impl Findings {
    fn add(&mut self, error: String) {
        if self.strict.len() < STRICT_MAX && !self.strict.contains(&error) {
            self.strict.push(error);
        }
    }
}

/// The message of a strict refusal.
///
/// ```
/// let errors = ["unknown field \"a\"".to_owned(), "unknown field \"b\"".to_owned()];
/// assert_eq!(
///     evenkeel_schema::unknown::strict_message(&errors),
///     r#"strict decoding error: unknown field "a", unknown field "b""#
/// );
/// ```
pub fn strict_message(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

#[cfg(test)]
mod tests;
