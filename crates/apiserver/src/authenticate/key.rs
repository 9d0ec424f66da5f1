//! The key that signs service account tokens.

use evenkeel_env::Env;
use evenkeel_schema::json::{Value, json};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use ring::{digest, hmac};

use super::jwt::base64url;

/// The prefix of a P-256 public key in SPKI form, up to the point itself.
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A signing key cannot be read or generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a private key of the curve P-256 in PKCS #8")]
pub struct KeyError;

/// The key that signs service account tokens.
///
/// Normally it is an ECDSA key, whose public half anybody can read (`/openid/v1/jwks`). ECDSA signatures are
/// random, but a simulation must repeat exactly from its seed, so a seeded [`Env`] signs with an HMAC key
/// derived from the seed.
pub struct SigningKey(Algorithm);

enum Algorithm {
    /// An ECDSA key pair, boxed because it is large, and its key ID.
    Ecdsa(Box<EcdsaKeyPair>, String),
    Seeded(hmac::Key),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}

impl SigningKey {
    /// Generates a key in PKCS #8 form.
    ///
    /// # Errors
    /// If the system's random number generator fails.
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(made.map_err(|_| KeyError)?.as_ref().to_vec())
    }

    /// Reads a key in PKCS #8 form.
    ///
    /// # Errors
    /// If the bytes are not a P-256 key.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &random);
        let pair = pair.map_err(|_| KeyError)?;
        let spki: Vec<u8> = P256_SPKI.iter().chain(pair.public_key().as_ref()).copied().collect();
        let id = base64url(digest::digest(&digest::SHA256, &spki).as_ref());
        Ok(Self(Algorithm::Ecdsa(Box::new(pair), id)))
    }

    /// Creates a key for a server that was given none.
    pub(crate) fn for_env(env: &Env) -> Self {
        let new = || Self::from_pkcs8(&Self::generate()?);
        match env.seed() {
            Some(seed) => Self::seeded(seed),
            // If the random number generator fails, an HMAC key takes its place; its tokens are valid in this
            // process only.
            None => new().unwrap_or_else(|_| Self::seeded(env.random_below(u64::MAX))),
        }
    }

    fn seeded(seed: u64) -> Self {
        let secret = format!("evenkeel service accounts {seed}");
        Self(Algorithm::Seeded(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
    }

    /// The algorithm's name in a token's header (`alg`).
    pub(crate) fn algorithm(&self) -> &'static str {
        match &self.0 {
            Algorithm::Ecdsa(..) => "ES256",
            Algorithm::Seeded(_) => "HS256",
        }
    }

    /// The key's ID in a token's header (`kid`).
    pub(crate) fn id(&self) -> &str {
        match &self.0 {
            Algorithm::Ecdsa(_, id) => id,
            Algorithm::Seeded(_) => "seeded",
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.0 {
            Algorithm::Ecdsa(pair, _) => {
                let signature = pair.sign(&SystemRandom::new(), message);
                signature.map(|it| it.as_ref().to_vec()).unwrap_or_default()
            }
            Algorithm::Seeded(key) => hmac::sign(key, message).as_ref().to_vec(),
        }
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Algorithm::Ecdsa(pair, _) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
                    .verify(message, signature)
                    .is_ok()
            }
            Algorithm::Seeded(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }

    /// The public keys, as entries of a JSON Web Key Set; empty for an HMAC key.
    pub(crate) fn public(&self) -> Vec<Value> {
        let Algorithm::Ecdsa(pair, id) = &self.0 else { return Vec::new() };
        // The encoded point is the byte 4, then x, then y.
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        vec![json!({
            "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256",
            "x": base64url(x), "y": base64url(y),
        })]
    }
}
