//! Strings: short ones without an allocation, long ones shared.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A string that is cheap to clone.
///
/// ```
/// use evenkeel_tree::Text;
///
/// let name = Text::from("metadata");
/// assert_eq!(name.as_str(), "metadata");
/// assert!(name.len() <= Text::INLINE_MAX);
/// ```
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    /// The first `length` bytes are the string.
    Inline { length: u8, bytes: [u8; Text::INLINE_MAX] },
    /// A string of more than [`Text::INLINE_MAX`] bytes.
    Shared(Arc<str>),
}

impl Text {
    /// The longest string, in bytes, that needs no allocation: it fits into the three words that a tree takes anyway.
    pub const INLINE_MAX: usize = 22;

    /// The string.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Shared(text) => text,
            Form::Inline { .. } => {
                std::str::from_utf8(self.as_bytes()).expect("the bytes were copied from a whole string")
            }
        }
    }

    /// The bytes of the string.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Shared(text) => text.as_bytes(),
            Form::Inline { length, bytes } => &bytes[..usize::from(*length)],
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from("")
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// Texts are ordered, compared and hashed as strings are.
impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Self {
        text.clone()
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        (&*text).into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut bytes = [0; Self::INLINE_MAX];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(text.as_bytes());
                Self(Form::Inline { length, bytes })
            }
            _ => Self(Form::Shared(text.into())),
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    #[test]
    fn a_tree_takes_three_words() {
        assert_eq!(size_of::<Text>(), 24);
        assert_eq!(size_of::<Tree>(), 24);
    }

    #[test]
    fn texts_are_the_same_inline_and_shared() {
        for length in [0, 1, Text::INLINE_MAX, Text::INLINE_MAX + 1, 300] {
            let plain = "é".repeat(length / 2) + &"x".repeat(length % 2);
            let text = Text::from(plain.as_str());
            assert_eq!((text.as_str(), text.len()), (plain.as_str(), plain.len()));
            assert_eq!(text, text.clone());
        }
        let [a, b] = ["a", "b"].map(Text::from);
        let [long_a, long_b] = ["a", "b"].map(|text| Text::from(text.repeat(40)));
        assert!(a < long_b && long_a < b);
    }
}
