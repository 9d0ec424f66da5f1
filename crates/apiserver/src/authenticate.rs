//! Authentication by bearer token: service account tokens, and the tokens of other authenticators that the
//! server trusts.
//!
//! Client certificates are checked by the transport, not here. Service account tokens are issued here
//! (`serviceaccounts/NAME/token`) and reviewed here (TokenReview). They are valid only while the account and
//! the object that they are bound to exist.

mod account;
mod discovery;
mod jwt;
mod key;
mod review;

use std::sync::{Arc, OnceLock};

use evenkeel_env::Env;
use evenkeel_schema::go::quote_list;
use evenkeel_store::Store;
use parking_lot::RwLock;

pub(crate) use account::{Account, AccountToken, Bound};
pub(crate) use discovery::answer as discovery;
pub use key::{KeyError, SigningKey};
pub(crate) use review::token_review;

use crate::bounded_cache::BoundedCache;
use crate::{Header, User};
use jwt::Claims;

/// The issuer of service account tokens, which is also the audience of a token whose request names none.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// How many tokens with a verified signature are cached. Verifying one takes about 60 µs; a cluster has a few
/// clients, each with one token at a time.
const KNOWN_GENERATION: usize = 512;

/// A further source of bearer tokens, such as a static token file.
pub trait TokenAuthenticator: Send + Sync {
    /// Returns the user to whom a token belongs; `None` if this authenticator does not know the token.
    fn user(&self, token: &str) -> Option<User>;
}

/// The user that a token authenticates.
pub(crate) struct Authenticated {
    pub(crate) user: User,
    /// The requested audiences for which the token is valid.
    pub(crate) audiences: Vec<String>,
}

/// Why a token was refused, as TokenReview reports it.
pub(crate) type Refusal = String;

/// Kubernetes' message for a token that no authenticator knows.
const UNKNOWN: &str = "invalid bearer token";

/// Authenticates bearer tokens and issues service account tokens.
pub(crate) struct Authentication {
    store: Store<Header>,
    env: Env,
    /// The signing key; generated on first use unless one was given.
    key: OnceLock<Arc<SigningKey>>,
    others: RwLock<Vec<Arc<dyn TokenAuthenticator>>>,
    /// Tokens whose signature has been verified. Expiry, account and bound object are checked on every
    /// request.
    known: BoundedCache<String, Arc<Claims>, KNOWN_GENERATION>,
}

impl Authentication {
    pub(crate) fn new(store: Store<Header>, env: Env, key: Option<Arc<SigningKey>>) -> Self {
        let key = key.map_or_else(OnceLock::new, OnceLock::from);
        Self { store, env, key, others: RwLock::default(), known: BoundedCache::default() }
    }

    pub(crate) fn trust(&self, other: Arc<dyn TokenAuthenticator>) {
        self.others.write().push(other);
    }

    pub(crate) fn key(&self) -> &SigningKey {
        self.key.get_or_init(|| Arc::new(SigningKey::for_env(&self.env)))
    }

    /// Authenticates a token for these audiences; without any, for the API server itself.
    pub(crate) fn authenticate(&self, token: &str, audiences: &[String]) -> Result<Authenticated, Refusal> {
        let own = [ISSUER.to_owned()];
        let audiences = if audiences.is_empty() { &own } else { audiences };
        if let Some(mut user) = self.others.read().iter().find_map(|it| it.user(token)) {
            user.groups.push("system:authenticated".to_owned());
            // A token without an audience is valid for the API server only.
            let audiences: Vec<String> = audiences.iter().filter(|it| *it == ISSUER).cloned().collect();
            return if audiences.is_empty() {
                Err(UNKNOWN.to_owned())
            } else {
                Ok(Authenticated { user, audiences })
            };
        }
        if !jwt::is_issued_by(token, ISSUER) {
            return Err(UNKNOWN.to_owned());
        }
        self.authenticate_account(token, audiences).map_err(|why| format!("[{UNKNOWN}, {why}]"))
    }

    fn authenticate_account(&self, token: &str, audiences: &[String]) -> Result<Authenticated, Refusal> {
        let claims = self.claims(token)?;
        let good: Vec<String> =
            claims.audiences.iter().filter(|it| audiences.contains(it)).cloned().collect();
        if good.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quote_list(&claims.audiences),
                quote_list(audiences)
            ));
        }
        let user = account::check(&self.store, self.env.now(), &claims)?;
        Ok(Authenticated { user, audiences: good })
    }

    /// Returns the claims of a token after verifying its signature.
    fn claims(&self, token: &str) -> Result<Arc<Claims>, Refusal> {
        if let Some(claims) = self.known.get(token) {
            return Ok(claims);
        }
        let claims = Arc::new(jwt::open(token, self.key())?);
        self.known.insert(token.to_owned(), claims.clone(), 1);
        Ok(claims)
    }

    /// Issues a token. Returns it with its ID (the claim `jti`).
    pub(crate) fn issue(&self, token: &AccountToken<'_>) -> (String, String) {
        let id = self.env.uid();
        let claims = token.claims(self.env.now(), id.clone());
        (jwt::sign(&claims, self.key()), id)
    }
}

#[cfg(test)]
mod tests;
