//! Tests the concurrent part of the queue with a checker that chooses which thread runs next.
//!
//! `handoff.rs` is compiled here a second time, with the lock and notifications of [`shuttle`], around the real state of
//! the queue. Each test runs a thousand schedules. A deadlock, such as a worker that is never woken, fails the test.

#[allow(clippy::duplicate_mod, reason = "the same code is to run on another lock")]
#[path = "handoff.rs"]
mod handoff;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Env, Purpose};
use shuttle::future::{block_on, spawn, yield_now};
use shuttle::rand::Rng;
use tokio::time::Instant;

use super::Accounted;
use super::account::Account;
use super::state::{End, Later, State};
use crate::Request;
use handoff::{Handoff, Look, Wake};

/// The number of schedules of one test: a second or two in a debug build.
const SCHEDULES: usize = 1000;

const AN_HOUR: Duration = Duration::from_secs(60 * 60);

/// The module that `handoff.rs` imports as `super::sync` when it is compiled here.
mod sync {
    use std::collections::VecDeque;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tokio::time::Instant;

    #[derive(Debug, Default)]
    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no test panics while it holds the lock")
        }
    }

    /// Follows the rules of `tokio::sync::Notify`: one permit is kept for a later waiter, and `notify_waiters` reaches
    /// everyone who has registered before it, whether or not they wait already.
    #[derive(Debug, Default)]
    pub(super) struct Notify(Mutex<Notes>);

    #[derive(Debug, Default)]
    struct Notes {
        permit: bool,
        calls_to_all: u64,
        next_id: u64,
        waiting: VecDeque<(u64, Waker)>,
        told: Vec<u64>,
    }

    pub(super) struct Notified<'a> {
        notify: &'a Notify,
        calls_to_all: u64,
        id: Option<u64>,
    }

    impl Notify {
        pub(super) fn notified(&self) -> Notified<'_> {
            Notified { notify: self, calls_to_all: self.0.lock().calls_to_all, id: None }
        }

        pub(super) fn notify_one(&self) {
            self.0.lock().tell_one();
        }

        pub(super) fn notify_waiters(&self) {
            let mut notes = self.0.lock();
            notes.calls_to_all += 1;
            notes.waiting.drain(..).for_each(|(_, waker)| waker.wake());
        }
    }

    impl Notes {
        fn tell_one(&mut self) {
            match self.waiting.pop_front() {
                Some((id, waker)) => {
                    self.told.push(id);
                    waker.wake();
                }
                None => self.permit = true,
            }
        }
    }

    impl Future for Notified<'_> {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let mut notes = self.notify.0.lock();
            let told = self.id.and_then(|id| notes.told.iter().position(|other| *other == id));
            if let Some(at) = told {
                notes.told.swap_remove(at);
                self.id = None;
                return Poll::Ready(());
            }
            if notes.calls_to_all != self.calls_to_all || std::mem::take(&mut notes.permit) {
                return Poll::Ready(());
            }
            let id = self.id.unwrap_or(notes.next_id);
            notes.next_id = notes.next_id.max(id + 1);
            notes.waiting.retain(|(other, _)| *other != id);
            notes.waiting.push_back((id, cx.waker().clone()));
            self.id = Some(id);
            Poll::Pending
        }
    }

    impl Drop for Notified<'_> {
        fn drop(&mut self) {
            let Some(id) = self.id else { return };
            let mut notes = self.notify.0.lock();
            notes.waiting.retain(|(other, _)| *other != id);
            // A notified waiter that gives up passes the notification on.
            if let Some(at) = notes.told.iter().position(|other| *other == id) {
                notes.told.swap_remove(at);
                notes.tell_one();
            }
        }
    }

    /// Time may pass at any moment: the wait ends by a notification, or at random.
    pub(super) async fn notified_until(notified: Notified<'_>, _at: Instant) {
        let passed = shuttle::future::yield_now();
        futures::future::select(std::pin::pin!(notified), std::pin::pin!(passed)).await;
    }
}

/// A queue with the real state and the checked hand-off.
struct Checked {
    state: Handoff<Accounted<Request>>,
}

impl Checked {
    fn new(env: &Env) -> Arc<Self> {
        let account = Account::open(env.ledger(), "checked");
        Arc::new(Self { state: Handoff::new(Accounted { state: State::default(), account }) })
    }

    fn change(&self, change: impl FnOnce(&mut State<Request>) -> Wake) {
        self.state.change(|kept| ((), kept.change(change)));
    }

    fn add(&self, key: &Request) {
        self.change(|state| {
            let ready = !state.is_shut_down() && state.add(key.clone(), 0, None, None, Instant::now());
            Wake { one: ready, ..Wake::default() }
        });
    }

    fn add_later(&self, key: &Request) {
        let now = Instant::now();
        self.change(|state| {
            let later = Later { at: now + AN_HOUR, purpose: Purpose::Work };
            state.add(key.clone(), 0, Some(later), None, now);
            Wake { one: true, ..Wake::default() }
        });
    }

    async fn get(&self) -> Option<Request> {
        let look = |state: &mut State<Request>| {
            // The delay may be over at any look.
            if state.delayed_len() > 0 && shuttle::rand::thread_rng().r#gen() {
                state.promote_due(Instant::now() + 2 * AN_HOUR);
            }
            match state.pop() {
                Some(item) => {
                    (Look::Found(Some(item.key)), Wake { one: state.has_ready(), ..Wake::default() })
                }
                None if state.is_shut_down() => (Look::Found(None), Wake::default()),
                None => (Look::Wait(state.next_due()), Wake::default()),
            }
        };
        self.state.take(|kept| kept.change(look)).await
    }

    fn done(&self, key: &Request) {
        self.change(|state| {
            let ready = state.done(key);
            Wake { one: ready, drained: state.is_idle(), ..Wake::default() }
        });
    }

    fn end(&self, end: End) {
        self.change(|state| {
            state.shut_down(end);
            Wake { all: true, drained: state.is_idle(), ..Wake::default() }
        });
    }
}

fn key(at: usize) -> Request {
    Request::namespaced("a", at.to_string())
}

/// Works until the queue is shut down. Returns the number of keys, and fails if a key is in flight twice.
async fn work(queue: Arc<Checked>, held: Arc<shuttle::sync::Mutex<BTreeMap<Request, bool>>>) -> usize {
    let mut count = 0;
    while let Some(key) = queue.get().await {
        let twice = held.lock().unwrap().insert(key.clone(), true);
        assert_ne!(twice, Some(true), "{key} was handed out twice");
        yield_now().await;
        held.lock().unwrap().insert(key.clone(), false);
        queue.done(&key);
        count += 1;
    }
    count
}

#[test]
fn no_key_is_lost_or_handed_out_twice() {
    shuttle::check_random(
        || {
            let env = Env::seeded(1);
            let queue = Checked::new(&env);
            let held = Arc::default();
            let workers: Vec<_> = (0..3).map(|_| spawn(work(queue.clone(), Arc::clone(&held)))).collect();
            let adders: Vec<_> = (0..2)
                .map(|adder| {
                    let queue = queue.clone();
                    spawn(async move {
                        for at in 0..3 {
                            queue.add(&key((adder + at) % 3));
                            yield_now().await;
                        }
                    })
                })
                .collect();
            block_on(async {
                futures::future::join_all(adders).await;
                queue.end(End::Draining);
                queue.state.drained(|kept| kept.state.is_idle()).await;
                let counts = futures::future::join_all(workers).await;
                let total: usize = counts.into_iter().map(|count| count.expect("a worker ends")).sum();
                assert!((3..=6).contains(&total), "each key at least once, no add more than once: {total}");
            });
            assert_eq!(env.ledger().len(), 0);
        },
        SCHEDULES,
    );
}

/// A delayed key is added while some workers wait without a timer, and some with a later timer.
#[test]
fn a_delayed_key_finds_a_worker() {
    shuttle::check_random(
        || {
            let env = Env::seeded(1);
            let queue = Checked::new(&env);
            let held: Arc<shuttle::sync::Mutex<BTreeMap<Request, bool>>> = Arc::default();
            let workers: Vec<_> = (0..2).map(|_| spawn(work(queue.clone(), held.clone()))).collect();
            let adder = spawn({
                let queue = queue.clone();
                async move {
                    for at in 0..3 {
                        queue.add_later(&key(at));
                        yield_now().await;
                    }
                    queue.add(&key(3));
                }
            });
            block_on(async {
                adder.await.expect("the keys are added");
                while held.lock().unwrap().len() < 4 {
                    yield_now().await;
                }
                queue.end(End::Draining);
                queue.state.drained(|kept| kept.state.is_idle()).await;
                let counts = futures::future::join_all(workers).await;
                let total: usize = counts.into_iter().map(|count| count.expect("a worker ends")).sum();
                assert_eq!(total, 4);
            });
            assert_eq!(env.ledger().len(), 0);
        },
        SCHEDULES,
    );
}

#[test]
fn a_shutdown_reaches_everybody_who_waits_or_is_about_to() {
    shuttle::check_random(
        || {
            let env = Env::seeded(1);
            let queue = Checked::new(&env);
            let workers: Vec<_> = (0..3).map(|_| spawn(work(queue.clone(), Arc::default()))).collect();
            let ender = spawn({
                let queue = queue.clone();
                async move {
                    queue.add(&key(1));
                    queue.end(End::Closed);
                }
            });
            block_on(async {
                ender.await.expect("the queue is ended");
                futures::future::join_all(workers).await;
            });
            assert_eq!(env.ledger().len(), 0, "what was dropped is no pending work");
        },
        SCHEDULES,
    );
}
