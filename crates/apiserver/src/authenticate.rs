//! Who asks, by bearer token: tokens of service accounts, and whatever else a server was told to trust.
//!
//! Certificates are the transport's to look at. A token is the API's own: it is made here (`serviceaccounts/NAME/token`),
//! asked about here (TokenReview), and good only as long as the account and the object that it is bound to are there.

mod account;
mod discovery;
mod jwt;
mod key;
mod review;

use std::sync::{Arc, OnceLock};

use evenkeel_env::{Env, HashMap};
use evenkeel_store::Store;
use parking_lot::{Mutex, RwLock};

pub(crate) use account::{Account, AccountToken, Bound};
pub(crate) use discovery::answer as discovery;
pub use key::{KeyError, SigningKey};
pub(crate) use review::token_review;

use crate::{Header, User};
use jwt::Claims;

/// Who makes the tokens of a Kubernetes cluster, and for whom they are good unless the request says otherwise.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// How many tokens are remembered to be signed by us. A check takes some 60 µs; a cluster has a few clients, each with
/// one token at a time.
const KNOWN_MAX: usize = 1024;

/// Somebody else who knows tokens, such as a file of them.
pub trait TokenAuthenticator: Send + Sync {
    /// Who brings this token; none where it is not known here.
    fn user(&self, token: &str) -> Option<User>;
}

/// Whom a token proves.
pub(crate) struct Authenticated {
    pub(crate) user: User,
    /// Which of the audiences that were asked for the token is good for.
    pub(crate) audiences: Vec<String>,
}

/// Why a token proves nobody, as TokenReview tells it.
pub(crate) type Refusal = String;

/// What Kubernetes says of a token that nobody knows.
const UNKNOWN: &str = "invalid bearer token";

/// Knows tokens, and makes those of service accounts.
pub(crate) struct Authentication {
    store: Store<Header>,
    env: Env,
    /// Made when it is first needed, unless one was given.
    key: OnceLock<Arc<SigningKey>>,
    others: RwLock<Vec<Arc<dyn TokenAuthenticator>>>,
    /// Tokens whose signature was found to be ours. What else makes a token good is looked at every time.
    known: Mutex<HashMap<String, Arc<Claims>>>,
}

impl Authentication {
    pub(crate) fn new(store: Store<Header>, env: Env, key: Option<Arc<SigningKey>>) -> Self {
        let key = key.map_or_else(OnceLock::new, OnceLock::from);
        Self { store, env, key, others: RwLock::default(), known: Mutex::default() }
    }

    pub(crate) fn trust(&self, other: Arc<dyn TokenAuthenticator>) {
        self.others.write().push(other);
    }

    pub(crate) fn key(&self) -> &SigningKey {
        self.key.get_or_init(|| Arc::new(SigningKey::for_env(&self.env)))
    }

    /// Whom a token proves to one of these audiences; the API itself where none is named.
    pub(crate) fn authenticate(&self, token: &str, audiences: &[String]) -> Result<Authenticated, Refusal> {
        let own = [ISSUER.to_owned()];
        let audiences = if audiences.is_empty() { &own } else { audiences };
        if let Some(mut user) = self.others.read().iter().find_map(|it| it.user(token)) {
            user.groups.push("system:authenticated".to_owned());
            // A token without an audience is one for the API.
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
                quoted(&claims.audiences),
                quoted(audiences)
            ));
        }
        let user = account::check(&self.store, self.env.now(), &claims)?;
        Ok(Authenticated { user, audiences: good })
    }

    /// What a token that we signed says.
    fn claims(&self, token: &str) -> Result<Arc<Claims>, Refusal> {
        if let Some(claims) = self.known.lock().get(token) {
            return Ok(claims.clone());
        }
        let claims = Arc::new(jwt::open(token, self.key())?);
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(token.to_owned(), claims.clone());
        Ok(claims)
    }

    /// Makes a token, and the id by which the token can be recognized.
    pub(crate) fn issue(&self, token: &AccountToken<'_>) -> (String, String) {
        let id = self.env.uid();
        let claims = token.claims(self.env.now(), id.clone());
        (jwt::seal(&claims, self.key()), id)
    }
}

/// A list of texts as Go prints it with `%q`.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| crate::status::quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests;
