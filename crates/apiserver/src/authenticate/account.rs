//! Service account tokens: their claims, and whether the claims still hold.

use evenkeel_schema::json::Value;
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::{Entry, Store};
use jiff::Timestamp;

use super::ISSUER;
use super::jwt::{Claims, Kubernetes, Reference};
use crate::registry::storage_prefix;
use crate::storage;
use crate::{Header, User};

/// How far the clocks of two machines may differ.
const LEEWAY_SECONDS: i64 = 60;

const INVALIDATED: &str = "service account token has been invalidated";

/// A service account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// An object to which a token is bound; the token is invalid once the object is gone.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// A pod's name and UID, and the name and UID of its node if it is scheduled. The node's UID is empty if
    /// the node does not exist.
    Pod(String, String, Option<(String, String)>),
    /// A Secret's name and UID.
    Secret(String, String),
    /// A Node's name and UID.
    Node(String, String),
}

/// A token to be issued.
#[derive(Clone, Debug)]
pub(crate) struct AccountToken<'a> {
    pub(crate) account: Account<'a>,
    pub(crate) audiences: Vec<String>,
    pub(crate) bound: Option<Bound>,
    pub(crate) seconds: i64,
    /// The number of seconds after which use of the token counts as stale. Set if the token lives longer than
    /// the client requested.
    pub(crate) warn_after: Option<i64>,
}

impl AccountToken<'_> {
    pub(super) fn claims(&self, now: Timestamp, id: String) -> Claims {
        let now = now.as_second();
        let Account { namespace, name, uid } = self.account;
        let reference = |name: &str, uid: &str| Reference { name: name.to_owned(), uid: uid.to_owned() };
        let mut kubernetes = Kubernetes {
            namespace: namespace.to_owned(),
            serviceaccount: reference(name, uid),
            warnafter: self.warn_after.map(|seconds| now + seconds),
            ..Kubernetes::default()
        };
        match &self.bound {
            None => {}
            Some(Bound::Secret(name, uid)) => kubernetes.secret = Some(reference(name, uid)),
            Some(Bound::Node(name, uid)) => kubernetes.node = Some(reference(name, uid)),
            Some(Bound::Pod(name, uid, node)) => {
                kubernetes.pod = Some(reference(name, uid));
                kubernetes.node = node.as_ref().map(|(name, uid)| reference(name, uid));
            }
        }
        Claims {
            audiences: self.audiences.clone(),
            expires: now + self.seconds,
            issued: now,
            issuer: ISSUER.to_owned(),
            id,
            kubernetes,
            not_before: now,
            subject: user_name(namespace, name),
        }
    }
}

fn user_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Returns the user of claims that hold at `now`, or the reason why they do not.
pub(super) fn check(store: &Store<Header>, now: Timestamp, claims: &Claims) -> Result<User, String> {
    check_times(now.as_second(), claims)?;
    let Kubernetes { namespace, serviceaccount, pod, secret, node, .. } = &claims.kubernetes;
    let find = |plural: &str, namespace: &str, name: &str| {
        let prefix = storage_prefix("", plural);
        let key = if namespace.is_empty() {
            format!("{prefix}{name}")
        } else {
            format!("{prefix}{namespace}/{name}")
        };
        store.get(&key)
    };
    let Reference { name, uid } = serviceaccount;
    let account = find("serviceaccounts", namespace, name)
        .ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
    if *account.header.uid != **uid {
        return Err(format!("service account UID ({}) does not match claim ({uid})", account.header.uid));
    }
    if is_gone(&account, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    let bound = |plural: &str, kind: &str, word: &str, namespace: &str, claim: &Reference| {
        let entry = find(plural, namespace, &claim.name).ok_or(INVALIDATED)?;
        let uid = &entry.header.uid;
        if **uid != *claim.uid {
            return Err(format!(
                "{kind} UID ({uid}) does not match service account {word} ref claim ({})",
                claim.uid
            ));
        }
        if is_gone(&entry, now) { Err(INVALIDATED.to_owned()) } else { Ok(()) }
    };
    if let Some(claim) = secret {
        bound("secrets", "secret", "secret", namespace, claim)?;
    }
    if let Some(claim) = pod {
        bound("pods", "pod", "pod", namespace, claim)?;
    } else if let Some(claim) = node {
        bound("nodes", "node", "node", "", claim)?;
    }
    Ok(user(claims))
}

fn check_times(now: i64, claims: &Claims) -> Result<(), String> {
    let early = now + LEEWAY_SECONDS;
    if claims.not_before > early {
        return Err("service account token is not valid yet".to_owned());
    }
    if claims.expires < now - LEEWAY_SECONDS {
        return Err("service account token has expired".to_owned());
    }
    if claims.issued > early {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

/// Whether an object's deletion timestamp is further in the past than clocks may differ.
fn is_gone(entry: &Entry<Header>, now: Timestamp) -> bool {
    if !entry.header.deleting {
        return false;
    }
    // An object that is being deleted and cannot be parsed counts as gone, so that its tokens are refused.
    let Some(object) = storage::read_or_skip::<Value>(entry) else { return true };
    let at = object["metadata"]["deletionTimestamp"].as_str().unwrap_or_default();
    time::parse(at, Precision::Seconds).is_ok_and(|at| at.as_second() < now.as_second() - LEEWAY_SECONDS)
}

fn user(claims: &Claims) -> User {
    let Kubernetes { namespace, serviceaccount, pod, node, .. } = &claims.kubernetes;
    let own = format!("system:serviceaccounts:{namespace}");
    let groups = ["system:serviceaccounts", &own, "system:authenticated"];
    let mut user = User::new(user_name(namespace, &serviceaccount.name), groups);
    user.uid = serviceaccount.uid.clone();
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    if !claims.id.is_empty() {
        add("credential-id", &format!("JTI={}", claims.id));
    }
    for (what, claim) in [("node", node), ("pod", pod)] {
        if let Some(Reference { name, uid }) = claim {
            add(&format!("{what}-name"), name);
            add(&format!("{what}-uid"), uid);
        }
    }
    user
}
