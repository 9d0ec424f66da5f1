//! The key that tokens of service accounts are signed with.

use evenkeel_env::Env;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::jwt::base64url;

/// What stands before the point of a P-256 key in its public form: an SPKI that says which curve it is on.
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The key is no key of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no private key of the curve P-256 in PKCS #8")]
pub struct KeyError;

/// The key that tokens of service accounts are signed with.
///
/// In the real world it is an ECDSA key, whose public half anybody can read (`/openid/v1/jwks`). An ECDSA signature
/// is random, which a run that replays from its seed cannot have: a seeded world signs with a secret of its seed.
pub struct SigningKey(Kind);

enum Kind {
    /// Boxed, since it is large.
    Ecdsa(Box<EcdsaKeyPair>, String),
    Seeded(hmac::Key),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}

impl SigningKey {
    /// A new key, as PKCS #8.
    ///
    /// # Errors
    /// Where the system has no randomness to give.
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(made.map_err(|_| KeyError)?.as_ref().to_vec())
    }

    /// The key in these bytes of PKCS #8.
    ///
    /// # Errors
    /// Where they hold something else.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &random);
        let pair = pair.map_err(|_| KeyError)?;
        let spki: Vec<u8> = P256_SPKI.iter().chain(pair.public_key().as_ref()).copied().collect();
        let id = base64url(digest::digest(&digest::SHA256, &spki).as_ref());
        Ok(Self(Kind::Ecdsa(Box::new(pair), id)))
    }

    /// The key of a world that was given none.
    pub(crate) fn for_env(env: &Env) -> Self {
        let new = || Self::from_pkcs8(&Self::generate()?);
        match env.seed() {
            Some(seed) => Self::seeded(seed),
            // Without randomness nothing can be signed; then tokens are good in this process alone.
            None => new().unwrap_or_else(|_| Self::seeded(env.random_below(u64::MAX))),
        }
    }

    fn seeded(seed: u64) -> Self {
        let secret = format!("evenkeel service accounts {seed}");
        Self(Kind::Seeded(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
    }

    /// The name of the algorithm in tokens.
    pub(crate) fn algorithm(&self) -> &'static str {
        match &self.0 {
            Kind::Ecdsa(..) => "ES256",
            Kind::Seeded(_) => "HS256",
        }
    }

    /// By which name the key is known in tokens.
    pub(crate) fn id(&self) -> &str {
        match &self.0 {
            Kind::Ecdsa(_, id) => id,
            Kind::Seeded(_) => "seeded",
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.0 {
            Kind::Ecdsa(pair, _) => {
                let signature = pair.sign(&SystemRandom::new(), message);
                signature.map(|it| it.as_ref().to_vec()).unwrap_or_default()
            }
            Kind::Seeded(key) => hmac::sign(key, message).as_ref().to_vec(),
        }
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Kind::Ecdsa(pair, _) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
                    .verify(message, signature)
                    .is_ok()
            }
            Kind::Seeded(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }

    /// The public halves, as a JSON Web Key Set has them.
    pub(crate) fn public(&self) -> Vec<Value> {
        let Kind::Ecdsa(pair, id) = &self.0 else { return Vec::new() };
        // The point is 4, x and y.
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        vec![json!({
            "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256",
            "x": base64url(x), "y": base64url(y),
        })]
    }
}
