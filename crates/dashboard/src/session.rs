//! Sessions of the dashboard. A login takes a bearer token, or the code of a one-time link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::User;
use evenkeel_env::Env;
use http::HeaderMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a session lasts: a working day.
pub const SESSION_MAX: Duration = Duration::from_secs(8 * 60 * 60);

/// How long the code of a one-time link can be used: long enough to open a browser.
const CODE_MAX: Duration = Duration::from_secs(10 * 60);

/// The most sessions at a time, far more than people would open.
const SESSIONS_MAX: usize = 256;

/// The cookie that names a session.
const COOKIE: &str = "evenkeel-session";

/// The login of one browser.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) user: User,
    /// A client that acts as the user, or `None` if there is no cluster.
    pub(crate) client: Option<Client>,
    /// A client that acts as the user, and whose requests are not recorded: for what the page reads.
    pub(crate) quiet: Option<Client>,
    /// The token that was used to log in, which is authenticated again periodically. `None` after a one-time link.
    pub(crate) token: Option<Arc<str>>,
    pub(crate) expires: Instant,
    pub(crate) checked: Instant,
    /// Whether the session was ended before its time. Clones of the session share it.
    ended: watch::Sender<bool>,
}

impl Session {
    /// A session that begins now.
    pub(crate) fn new(user: User, [client, quiet]: [Option<Client>; 2], token: Option<Arc<str>>) -> Self {
        let now = Instant::now();
        let (ended, _) = watch::channel(false);
        Self { user, client, quiet, token, expires: now + SESSION_MAX, checked: now, ended }
    }

    /// Returns when the session is over: by a logout, because its token is not good any more, or by time.
    pub(crate) async fn over(self) {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            _ = ended.wait_for(|ended| *ended) => {}
            () = tokio::time::sleep_until(self.expires) => {}
        }
    }

    fn end(&self) {
        self.ended.send_replace(true);
    }
}

pub(crate) struct Sessions {
    env: Env,
    by_id: Mutex<BTreeMap<String, Session>>,
    /// The unused codes of one-time links, with the time at which they expire.
    codes: Mutex<Vec<(String, Instant)>>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        // Session ids must not be guessable, so they do not come from the cluster's seed.
        Self { env: Env::system(), by_id: Mutex::default(), codes: Mutex::default() }
    }

    fn secret(&self) -> String {
        let mut bytes = [0; 32];
        self.env.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Makes the code of a new one-time link.
    pub(crate) fn code(&self) -> String {
        let code = self.secret();
        self.codes.lock().push((code.clone(), Instant::now() + CODE_MAX));
        code
    }

    /// Uses up a code, and returns whether it was valid.
    pub(crate) fn redeem(&self, code: &str) -> bool {
        let now = Instant::now();
        let mut codes = self.codes.lock();
        codes.retain(|(_, end)| *end > now);
        let found = codes.iter().position(|(known, _)| is_same(known, code));
        found.map(|at| codes.remove(at)).is_some()
    }

    /// Begins a session, and returns the value of its cookie.
    pub(crate) fn begin(&self, session: Session) -> String {
        let id = self.secret();
        let mut sessions = self.by_id.lock();
        let now = Instant::now();
        sessions.retain(|_, session| session.expires > now);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.expires).map(|(id, _)| id.clone());
            oldest.and_then(|id| sessions.remove(&id)).iter().for_each(Session::end);
        }
        sessions.insert(id.clone(), session);
        format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}", SESSION_MAX.as_secs())
    }

    /// Returns the session of a request, with its id.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<(String, Session)> {
        let cookies = headers.get_all(http::header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let mut named = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        let (_, id) = named.find(|(name, _)| *name == COOKIE)?;
        let session = self.by_id.lock().get(id).cloned()?;
        (session.expires > Instant::now()).then(|| (id.to_owned(), session))
    }

    /// Records that the token of a session was authenticated just now.
    pub(crate) fn checked(&self, id: &str) {
        if let Some(session) = self.by_id.lock().get_mut(id) {
            session.checked = Instant::now();
        }
    }

    pub(crate) fn end(&self, id: &str) {
        self.by_id.lock().remove(id).iter().for_each(Session::end);
    }
}

/// Compares two secrets in constant time.
fn is_same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_code_is_good_once_and_for_a_while() {
        let sessions = Sessions::new();
        let code = sessions.code();
        assert!(!sessions.redeem("") && !sessions.redeem(&code[1..]));
        assert!(sessions.redeem(&code) && !sessions.redeem(&code));
        let late = sessions.code();
        tokio::time::advance(CODE_MAX + Duration::from_secs(1)).await;
        assert!(!sessions.redeem(&late));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_after_its_time() {
        let sessions = Sessions::new();
        let session = Session::new(User::new("a", ["b"]), [None, None], None);
        let cookie = sessions.begin(session);
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let mut headers = HeaderMap::new();
        headers.insert(http::header::COOKIE, cookie.split(';').next().unwrap().parse().unwrap());
        assert_eq!(sessions.of(&headers).unwrap().1.user.name, "a");
        tokio::time::advance(SESSION_MAX).await;
        assert!(sessions.of(&headers).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_the_end_of_a_session_hears_of_each() {
        let sessions = Sessions::new();
        let begin = || {
            let session = Session::new(User::new("a", ["b"]), [None, None], None);
            let cookie = sessions.begin(session.clone());
            let id = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
            (id, session.over())
        };
        let ((id, out), (_, expires)) = (begin(), begin());
        let begun = Instant::now();
        sessions.end(&id);
        out.await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        expires.await;
        assert_eq!(begun.elapsed(), SESSION_MAX);
        let (_, oldest) = begin();
        tokio::time::advance(Duration::from_secs(1)).await;
        let others: Vec<_> = (0..SESSIONS_MAX).map(|_| begin()).collect();
        let begun = Instant::now();
        oldest.await;
        assert_eq!((begun.elapsed(), others.len()), (Duration::ZERO, SESSIONS_MAX));
    }
}
