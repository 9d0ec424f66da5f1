//! JSON Web Tokens: `header.claims.signature`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_schema::json::{Value, json};
use serde::{Deserialize, Serialize};

use super::SigningKey;

/// The claims of a token.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "aud", default)]
    pub(super) audiences: Vec<String>,
    #[serde(rename = "exp", default)]
    pub(super) expires: i64,
    #[serde(rename = "iat", default)]
    pub(super) issued: i64,
    #[serde(rename = "iss", default)]
    pub(super) issuer: String,
    #[serde(rename = "jti", default)]
    pub(super) id: String,
    #[serde(rename = "kubernetes.io", default)]
    pub(super) kubernetes: Kubernetes,
    #[serde(rename = "nbf", default)]
    pub(super) not_before: i64,
    #[serde(rename = "sub", default)]
    pub(super) subject: String,
}

/// The private claims under `kubernetes.io`: the objects that the token belongs to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Kubernetes {
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Reference>,
    #[serde(default)]
    pub(super) serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) warnafter: Option<i64>,
}

/// A reference to an object by name and UID.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

pub(super) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Encodes and signs claims.
pub(super) fn sign(claims: &Claims, key: &SigningKey) -> String {
    let header = json!({"alg": key.algorithm(), "kid": key.id()}).to_string();
    let claims = serde_json::to_vec(claims).expect("writing claims to memory cannot fail");
    let mut token = format!("{}.{}", base64url(header.as_bytes()), base64url(&claims));
    let signature = base64url(&key.sign(token.as_bytes()));
    token.push('.');
    token.push_str(&signature);
    token
}

/// Whether a token claims to be from this issuer. The signature is not verified.
pub(super) fn is_issued_by(token: &str, issuer: &str) -> bool {
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    decode(claims).is_some_and(|claims| claims["iss"] == issuer)
}

/// Verifies a token's signature with this key and returns its claims.
pub(super) fn open(token: &str, key: &SigningKey) -> Result<Claims, String> {
    let malformed = || "go-jose/go-jose: compact JWS format must have three parts".to_owned();
    let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
    let (header, claims) = message.split_once('.').ok_or_else(malformed)?;
    let header = decode(header).ok_or_else(malformed)?;
    if header["kid"].as_str().is_some_and(|id| !id.is_empty() && id != key.id()) {
        return Err("invalid signature, no keys found".to_owned());
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    // The algorithm must be the key's own, never one that the token chooses.
    if header["alg"] != key.algorithm() || !key.verify(message.as_bytes(), &signature) {
        return Err("go-jose/go-jose: error in cryptographic primitive".to_owned());
    }
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap_or_default();
    serde_json::from_slice(&claims).map_err(|error| error.to_string())
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
