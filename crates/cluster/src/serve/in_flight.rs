//! Limits on the requests in flight, in total and of one user.
//!
//! The limits, the exemption and the refusal are those of kube-apiserver's `--max-requests-inflight` and
//! `--max-mutating-requests-inflight`: reads and writes are counted separately, watches count as neither, and members
//! of `system:masters` are always served. kube-apiserver v1.36 divides these numbers among priority levels and queues
//! requests before it refuses them with the same response. Here no request is queued; instead, a single user may use
//! only a part of each number, so that the rest is left to others. Watches have a limit of their own, which
//! kube-apiserver does not have.

use std::sync::Arc;

use evenkeel_apiserver::{Body, User};
use evenkeel_env::HashMap;
use http::{Method, Response, StatusCode, header};
use parking_lot::Mutex;

/// The group whose members are not limited.
const EXEMPT: &str = "system:masters";
/// The share of each limit that a single user may use: three quarters.
const USER_PARTS: (usize, usize) = (3, 4);
/// After how many seconds a refused client shall try again, as kube-apiserver says.
const RETRY_AFTER: &str = "1";
/// kube-apiserver's response body, in plain text.
const REFUSAL: &str = "Too many requests, please try again later.\n";

/// Whether this user is not limited.
pub(crate) fn is_exempt(user: &User) -> bool {
    user.is_in(EXEMPT)
}

/// The limit that a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Read,
    Write,
    Watch,
}

impl Class {
    /// The class of a request by its method, until it turns out to be a watch.
    pub(crate) fn of(method: &Method) -> Self {
        if method == Method::GET || method == Method::HEAD { Self::Read } else { Self::Write }
    }
}

/// A count for each [`Class`].
pub(crate) type Counts = [usize; 3];

/// Counts the requests in flight of one server. Cloning shares the counts.
#[derive(Clone)]
pub(crate) struct InFlight(Arc<Shared>);

struct Shared {
    most: Counts,
    counts: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    all: Counts,
    users: HashMap<Arc<str>, Counts>,
}

/// A request in flight. Dropping it ends the count.
pub(crate) struct Permit {
    in_flight: InFlight,
    user: Arc<str>,
    class: Class,
}

/// A limit is reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl InFlight {
    /// Limits the numbers of reads, writes and watches.
    pub(crate) fn new(reads: usize, writes: usize, watches: usize) -> Self {
        Self(Arc::new(Shared { most: [reads, writes, watches], counts: Mutex::default() }))
    }

    /// Counts a request of this user. `None` if the user is exempt and not counted.
    pub(crate) fn enter(&self, user: &User, class: Class) -> Result<Option<Permit>, TooMany> {
        if is_exempt(user) {
            return Ok(None);
        }
        let (slot, most) = (class as usize, self.0.most[class as usize]);
        let mut tally = self.0.counts.lock();
        let has = tally.users.get(user.name.as_str()).map_or(0, |counts| counts[slot]);
        if tally.all[slot] >= most || has >= (most * USER_PARTS.0 / USER_PARTS.1).max(1) {
            return Err(TooMany);
        }
        tally.all[slot] += 1;
        let name = match tally.users.get_key_value(user.name.as_str()) {
            Some((name, _)) => name.clone(),
            None => user.name.as_str().into(),
        };
        tally.users.entry(name.clone()).or_default()[slot] += 1;
        Ok(Some(Permit { in_flight: self.clone(), user: name, class }))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut tally = self.in_flight.0.counts.lock();
        tally.all[self.class as usize] -= 1;
        if let Some(counts) = tally.users.get_mut(&self.user) {
            counts[self.class as usize] -= 1;
            if *counts == Counts::default() {
                tally.users.remove(&self.user);
            }
        }
    }
}

/// The response to a request beyond a limit.
pub(crate) fn too_many_requests() -> Response<Body> {
    let mut response = Response::new(Body::from(REFUSAL));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache, private"),
        (header::RETRY_AFTER, RETRY_AFTER),
    ];
    let headers = headers.map(|(name, value)| (name, header::HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User::new(name, ["system:authenticated"])
    }

    #[test]
    fn one_user_leaves_a_part_to_the_others_and_all_together_have_a_bound() {
        let in_flight = InFlight::new(4, 4, 4);
        let enter = |name: &str| in_flight.enter(&user(name), Class::Read);
        let mut held: Vec<_> = (0..3).map(|_| enter("alice").unwrap()).collect();
        assert_eq!(enter("alice").err(), Some(TooMany));
        held.push(enter("bob").unwrap());
        assert_eq!(enter("carol").err(), Some(TooMany));
        drop(held);
        assert!(enter("carol").is_ok());
        assert!(in_flight.0.counts.lock().users.is_empty());
    }

    #[test]
    fn reads_writes_and_watches_are_counted_apart() {
        let in_flight = InFlight::new(1, 1, 1);
        let classes = [Class::Read, Class::Write, Class::Watch];
        let held: Vec<_> = classes.map(|class| in_flight.enter(&user("alice"), class).unwrap()).into();
        assert!(classes.iter().all(|class| in_flight.enter(&user("bob"), *class).is_err()));
        drop(held);
    }

    #[test]
    fn administrators_are_always_served() {
        let in_flight = InFlight::new(0, 0, 0);
        assert!(in_flight.enter(&User::admin(), Class::Write).unwrap().is_none());
        assert_eq!(in_flight.enter(&user("alice"), Class::Write).err(), Some(TooMany));
    }
}
