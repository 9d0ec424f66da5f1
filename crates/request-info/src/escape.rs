//! Percent-escapes, as Go's `net/url` reads them.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The ASCII characters that RFC 3986 does not allow in a segment of a path.
const NOT_IN_SEGMENT: AsciiSet = CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Decodes the `%xx` escapes of a path.
///
/// Returns `None` if a percent sign is not followed by two hexadecimal digits: Go refuses such a text as a whole. Bytes
/// that are not UTF-8 become the replacement character.
///
/// ```
/// use evenkeel_request_info::percent_decode;
///
/// assert_eq!(percent_decode("a%2Fb").as_deref(), Some("a/b"));
/// assert_eq!(percent_decode("a+b").as_deref(), Some("a+b"));
/// assert_eq!(percent_decode("%+5"), None);
/// ```
pub fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    match has_valid_escapes(text)? {
        false => Some(text.into()),
        true => Some(percent_decode_str(text).decode_utf8_lossy()),
    }
}

/// Decodes the name or the value of a query parameter, in which a plus sign means a space.
///
/// Returns `None` if a percent sign is not followed by two hexadecimal digits, or if the text contains a `&` or a `=`,
/// which separate names and values. To read whole queries, use `Query`.
///
/// ```
/// use evenkeel_request_info::query_decode;
///
/// assert_eq!(query_decode("a+b%2Bc").as_deref(), Some("a b+c"));
/// ```
pub fn query_decode(text: &str) -> Option<Cow<'_, str>> {
    has_valid_escapes(text)?;
    // `form_urlencoded` reads pairs. A text without `&` and `=` is the name of one pair, without a value.
    let pair = form_urlencoded::parse(text.as_bytes()).next();
    (!text.contains(['&', '='])).then(|| pair.map_or(Cow::Borrowed(""), |(name, _)| name))
}

/// Escapes the characters that would end a segment of a path or that a path cannot contain.
pub(crate) fn encode_segment(segment: &str) -> impl std::fmt::Display {
    utf8_percent_encode(segment, &NOT_IN_SEGMENT)
}

/// Whether the text has escapes, or `None` if one of them is malformed.
pub(crate) fn has_valid_escapes(text: &str) -> Option<bool> {
    // Most texts have no escapes. Looking at every byte without an early exit lets the compiler vectorize the loop.
    if !text.bytes().fold(false, |escaped, byte| escaped | (byte == b'%')) {
        return Some(false);
    }
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (digits, tail) = rest[at + 1..].split_first_chunk::<2>()?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = tail;
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_escape_is_refused() {
        for text in ["%", "%a", "a%", "a%zz", "%+5", "%-1", "% 5", "%\u{e9}1", "%2%35", "%%41"] {
            assert_eq!(percent_decode(text), None, "{text}");
            assert_eq!(query_decode(text), None, "{text}");
        }
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(percent_decode("%C3%a9%ff").as_deref(), Some("\u{e9}\u{fffd}"));
        assert_eq!(percent_decode("%252F").as_deref(), Some("%2F"));
        assert_eq!(query_decode("%26+%3d").as_deref(), Some("& ="));
        assert_eq!(query_decode("").as_deref(), Some(""));
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(percent_decode("/api/v1/pods"), Some(Cow::Borrowed("/api/v1/pods"))));
        assert!(matches!(query_decode("fieldSelector"), Some(Cow::Borrowed("fieldSelector"))));
    }

    #[test]
    fn a_segment_survives_encoding_and_decoding() {
        for segment in ["system:node", "a/b", "a%2Fb", "\u{e9}?#", "a+b c"] {
            assert_eq!(percent_decode(&encode_segment(segment).to_string()).as_deref(), Some(segment));
        }
    }
}
