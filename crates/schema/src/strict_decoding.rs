//! Decoding errors of request bodies: unknown and duplicate fields, and values of a wrong type.
//!
//! Kubernetes decodes a body into a Go struct. [`decode`] finds the errors that Go's decoder reports, with its messages and
//! in the order of the text. The result of a strategic merge patch goes through another decoder in Kubernetes, whose errors
//! [`convert`] finds.

mod convert;
mod decode;
mod fits;
mod go_type;
mod literal;

pub use convert::convert;
pub use decode::{decode, decode_value};
pub use fits::fits;

use crate::json::Value;
use literal::RefusedFloat;

/// The errors of decoding an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodingErrors {
    /// The messages `unknown field "spec.x"` and `duplicate field "spec.x"`. Strict field validation refuses the request for
    /// them; otherwise they become warnings.
    pub strict: Vec<String>,
    /// Why the object cannot be decoded at all, whatever the field validation.
    pub refusal: Option<String>,
    /// The float that the error is about, if it is about one.
    float: Option<RefusedFloat>,
}

/// The most strict errors that are reported.
const STRICT_MAX: usize = 100;

impl DecodingErrors {
    fn add(&mut self, error: String) {
        if self.strict.len() < STRICT_MAX && !self.strict.contains(&error) {
            self.strict.push(error);
        }
    }

    /// Makes the error quote a number as the client spelled it, such as `1e2`, in the merge patch that set it.
    pub fn spell_by_merge_patch(&mut self, patch: &[u8]) {
        self.spell(patch, RefusedFloat::spell);
    }

    /// Makes the error quote a number as the client spelled it, such as `1e2`, in the JSON patch that set it. A number
    /// that the patch also moves or copies keeps its shortest form.
    pub fn spell_by_json_patch(&mut self, patch: &[u8]) {
        self.spell(patch, RefusedFloat::spell_by_json_patch);
    }

    /// Prints the refused tree as JSON, with the refused number in the client's spelling, if that is known.
    pub fn print(&self, tree: &Value) -> String {
        let spelled = self.float.as_ref().and_then(|float| float.print(tree));
        spelled.unwrap_or_else(|| tree.to_string())
    }

    fn spell(&mut self, text: &[u8], find: fn(&mut RefusedFloat, &str)) {
        let (Some(float), Some(refusal)) = (&mut self.float, &mut self.refusal) else { return };
        let Ok(text) = std::str::from_utf8(text) else { return };
        find(float, text);
        if let Some(spelling) = &float.spelling {
            *refusal =
                refusal.replacen(&decode::refused_number(&float.number), &format!("number {spelling} "), 1);
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
