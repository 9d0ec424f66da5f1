//! Continue tokens: where a list with a limit continues.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde::{Deserialize, Serialize};

use crate::decode::parse_json;
use crate::status::{Result, Status, quote};

/// Base64 as Go decodes it: without padding, ignoring trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const VERSION: &str = "meta.k8s.io/v1";

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The revision of the first page; `None` for the inconsistent continuation of an expired list.
    pub(crate) revision: Option<u64>,
    /// The last key that was returned, relative to the list's prefix.
    pub(crate) after: String,
}

#[derive(Deserialize, Serialize)]
struct Wire<'a> {
    v: &'a str,
    rv: i64,
    start: String,
}

impl Token {
    /// Encodes the token for clients.
    pub(crate) fn encode(&self) -> String {
        let rv = self.revision.map_or(-1, |it| i64::try_from(it).unwrap_or(i64::MAX));
        let wire = Wire { v: VERSION, rv, start: format!("{}\0", self.after) };
        BASE64.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Decodes a token that a client sent.
    pub(crate) fn decode(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = BASE64.decode(text).map_err(|error| refuse(&base64_error(&error)))?;
        let value = parse_json(&bytes, false).map_err(|why| refuse(&why))?.object;
        let version = value["v"].as_str().unwrap_or_default();
        if version != VERSION {
            return Err(refuse(&format!(
                "server does not recognize this encoded version {}",
                quote(version)
            )));
        }
        let start = value["start"].as_str().unwrap_or_default();
        let rv = value["rv"].as_i64().unwrap_or_default();
        if rv == 0 {
            return Err(refuse(&format!("incorrect encoded start resourceVersion (version {VERSION})")));
        }
        if start.is_empty() {
            return Err(refuse(&format!("encoded start key empty (version {VERSION})")));
        }
        if start.starts_with('/') || start.split('/').any(|it| it == "..") {
            return Err(refuse(start));
        }
        let after = start.strip_suffix('\0').unwrap_or(start).to_owned();
        Ok(Self { revision: u64::try_from(rv).ok(), after })
    }
}

/// Go's error for bytes that are not base64.
fn base64_error(error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        // A single character at the end cannot be decoded.
        base64::DecodeError::InvalidLength(len) => len.saturating_sub(1),
        base64::DecodeError::InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back() {
        let token = Token { revision: Some(7), after: "ns/name".to_owned() };
        assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        assert_eq!(
            Token::decode("x").unwrap_err().message,
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
        );
        assert_eq!(
            Token::decode("garbage").unwrap_err().message,
            "invalid continue token: continue key is not valid: invalid character '\\u0081' looking for beginning of value"
        );
    }
}
