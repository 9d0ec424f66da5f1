//! Decoding errors of request bodies: unknown and duplicate fields, and values of a wrong type.
//!
//! Kubernetes decodes a body into a Go struct. [`decode`] finds the errors that Go's decoder reports, with its messages and
//! in the order of the text. The result of a strategic merge patch goes through another decoder in Kubernetes, whose errors
//! [`convert`] finds.

mod convert;
mod decode;
mod fits;
mod go_type;

pub use convert::convert;
pub use decode::{decode, decode_value};
pub use fits::fits;

/// The errors of decoding an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodingErrors {
    /// The messages `unknown field "spec.x"` and `duplicate field "spec.x"`. Strict field validation refuses the request for
    /// them; otherwise they become warnings.
    pub strict: Vec<String>,
    /// Why the object cannot be decoded at all, whatever the field validation.
    pub refusal: Option<String>,
}

/// The most strict errors that are reported.
const STRICT_MAX: usize = 100;

impl DecodingErrors {
    fn add(&mut self, error: String) {
        if self.strict.len() < STRICT_MAX && !self.strict.contains(&error) {
            self.strict.push(error);
        }
    }
}

/// The message of a response that refuses a request for strict errors.
///
/// ```
/// let errors = ["unknown field \"a\"".to_owned(), "unknown field \"b\"".to_owned()];
/// assert_eq!(
///     evenkeel_schema::strict_decoding::strict_message(&errors),
///     r#"strict decoding error: unknown field "a", unknown field "b""#
/// );
/// ```
pub fn strict_message(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

#[cfg(test)]
mod tests;
