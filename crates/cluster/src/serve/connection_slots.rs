//! The limit on open connections, and which connection is closed for a new one when it is reached.
//!
//! A connection is a *stranger* until a client certificate or a request authenticates its client; then it is *known*.
//! Strangers and known clients have separate shares of the slots. A new connection always gets a slot: if all slots of
//! strangers are taken, the oldest idle stranger is closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use evenkeel_apiserver::User;
use evenkeel_env::HashMap;
use futures::task::AtomicWaker;
use parking_lot::Mutex;

use super::activity::Activity;
use super::in_flight::is_exempt;

/// Strangers have one slot of this many. A client needs a stranger's slot for a handshake and one request, which takes
/// milliseconds, and a known client's slot for as long as it stays connected.
const STRANGERS_PART: usize = 4;
/// A single user may have one of this many parts of the known clients' slots, so that it cannot shut out others.
const USER_PART: usize = 2;

/// The connection slots of one server. Cloning shares them.
#[derive(Clone)]
pub(crate) struct ConnectionSlots(Arc<Mutex<Taken>>);

struct Taken {
    strangers_max: usize,
    known_max: usize,
    user_max: usize,
    next: u64,
    /// The connections of strangers by age, the oldest first.
    strangers: BTreeMap<u64, Arc<Holder>>,
    known: BTreeMap<u64, (Arc<Holder>, Arc<str>)>,
    /// How many slots each user has.
    users: HashMap<Arc<str>, usize>,
}

/// The connection in a slot.
#[derive(Default)]
struct Holder {
    activity: Activity,
    evicted: AtomicBool,
    waker: AtomicWaker,
}

/// A slot, held as long as the connection is open.
pub(crate) struct ConnectionSlot {
    slots: ConnectionSlots,
    number: u64,
    holder: Arc<Holder>,
    /// Whether the client is known.
    is_known: AtomicBool,
}

/// There is no slot for another connection of this user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSlot;

impl ConnectionSlots {
    /// Slots for `most` connections, at least four.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(STRANGERS_PART);
        let strangers_max = most / STRANGERS_PART;
        let known_max = most - strangers_max;
        let user_max = (known_max / USER_PART).max(1);
        Self(Arc::new(Mutex::new(Taken {
            strangers_max,
            known_max,
            user_max,
            next: 0,
            strangers: BTreeMap::new(),
            known: BTreeMap::new(),
            users: HashMap::default(),
        })))
    }

    /// Takes a slot for a new connection. If there is none, another stranger's connection is closed.
    pub(crate) fn take(&self) -> ConnectionSlot {
        let mut taken = self.0.lock();
        if taken.strangers.len() >= taken.strangers_max {
            taken.evict_stranger();
        }
        let number = taken.next;
        taken.next += 1;
        let holder = Arc::<Holder>::default();
        taken.strangers.insert(number, holder.clone());
        ConnectionSlot { slots: self.clone(), number, holder, is_known: AtomicBool::new(false) }
    }

    /// Closes one connection, a stranger's if there is one, because the process is out of file descriptors.
    pub(crate) fn make_room(&self) {
        let mut taken = self.0.lock();
        if !taken.evict_stranger() {
            taken.evict_known(|_| true);
        }
    }
}

impl Taken {
    /// Closes the connection of the oldest idle stranger, or else of the oldest stranger. Returns whether there was
    /// one.
    fn evict_stranger(&mut self) -> bool {
        let idle = self.strangers.iter().find(|(_, holder)| holder.activity.is_idle());
        let Some(number) = idle.or(self.strangers.first_key_value()).map(|(number, _)| *number) else {
            return false;
        };
        self.remove(number).is_some_and(|holder| holder.evict())
    }

    /// Closes the oldest idle connection of a known client whose user matches. Returns whether there was one.
    fn evict_known(&mut self, of: impl Fn(&str) -> bool) -> bool {
        let idle = self.known.iter().find(|(_, (holder, user))| of(user) && holder.activity.is_idle());
        let Some(number) = idle.map(|(number, _)| *number) else { return false };
        self.remove(number).is_some_and(|holder| holder.evict())
    }

    /// Moves a connection from the strangers to the known clients.
    fn promote(&mut self, number: u64, user: &User) -> Result<(), NoSlot> {
        let name = user.name.as_str();
        if !is_exempt(user) && self.users.get(name).is_some_and(|has| *has >= self.user_max) {
            self.evict_known(|other| other == name).then_some(()).ok_or(NoSlot)?;
        }
        // An administrator gets in even if all slots are taken: only an administrator can do something about that.
        if self.known.len() >= self.known_max && !self.evict_known(|_| true) && !is_exempt(user) {
            return Err(NoSlot);
        }
        // A connection that is being closed has no slot any more.
        if let Some(holder) = self.strangers.remove(&number) {
            let name: Arc<str> = name.into();
            *self.users.entry(name.clone()).or_default() += 1;
            self.known.insert(number, (holder, name));
        }
        Ok(())
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Holder>> {
        if let Some(holder) = self.strangers.remove(&number) {
            return Some(holder);
        }
        let (holder, user) = self.known.remove(&number)?;
        if let Some(has) = self.users.get_mut(&user) {
            *has -= 1;
            if *has == 0 {
                self.users.remove(&user);
            }
        }
        Some(holder)
    }
}

impl Holder {
    fn evict(&self) -> bool {
        self.evicted.store(true, Ordering::Release);
        self.waker.wake();
        true
    }
}

impl ConnectionSlot {
    /// What the client in this slot does.
    pub(crate) fn activity(&self) -> &Activity {
        &self.holder.activity
    }

    /// Notes who the client is. The connection moves to the slots of known clients.
    pub(crate) fn recognize(&self, user: &User) -> Result<(), NoSlot> {
        if self.is_known.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.slots.0.lock().promote(self.number, user)?;
        self.is_known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the connection must be closed to make room for another one.
    pub(crate) fn is_evicted(&self) -> bool {
        self.holder.evicted.load(Ordering::Acquire)
    }

    /// Wakes this task when the connection must be closed.
    pub(crate) fn register(&self, waker: &Waker) {
        self.holder.waker.register(waker);
    }

    /// Returns when the connection must be closed.
    pub(crate) async fn evicted(&self) {
        std::future::poll_fn(|cx| {
            self.register(cx.waker());
            if self.is_evicted() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.0.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> User {
        User::new("alice", ["system:authenticated"])
    }

    #[test]
    fn the_oldest_idle_stranger_leaves_for_a_new_one() {
        let slots = ConnectionSlots::new(8);
        let (first, second) = (slots.take(), slots.take());
        let open = first.activity().open();
        let third = slots.take();
        assert_eq!([&first, &second, &third].map(ConnectionSlot::is_evicted), [false, true, false]);
        drop(open);
        let fourth = slots.take();
        assert_eq!([&first, &third, &fourth].map(ConnectionSlot::is_evicted), [true, false, false]);
    }

    #[test]
    fn where_all_strangers_are_busy_the_oldest_leaves() {
        let slots = ConnectionSlots::new(4);
        let first = slots.take();
        let _open = first.activity().open();
        let second = slots.take();
        assert!(first.is_evicted() && !second.is_evicted());
    }

    #[test]
    fn known_clients_are_not_touched_by_strangers() {
        let slots = ConnectionSlots::new(8);
        let known: Vec<ConnectionSlot> =
            (0..6).map(|_| slots.take()).inspect(|it| it.recognize(&User::admin()).unwrap()).collect();
        let strangers: Vec<ConnectionSlot> = (0..100).map(|_| slots.take()).collect();
        assert!(known.iter().all(|slot| !slot.is_evicted()));
        assert_eq!(strangers.iter().filter(|slot| !slot.is_evicted()).count(), 2);
    }

    #[test]
    fn one_user_has_a_part_of_the_places_and_its_idle_connections_leave_first() {
        let slots = ConnectionSlots::new(8);
        let recognized = |user: &User| {
            let slot = slots.take();
            slot.recognize(user).map(|()| slot)
        };
        let held: Vec<ConnectionSlot> = (0..3).map(|_| recognized(&alice()).ok().unwrap()).collect();
        let fourth = recognized(&alice()).ok().unwrap();
        assert!(held[0].is_evicted() && !fourth.is_evicted());
        let _busy: Vec<_> = held.iter().chain([&fourth]).map(|slot| slot.activity().open()).collect();
        assert_eq!(recognized(&alice()).err(), Some(NoSlot));
        assert!(recognized(&User::new("bob", [""; 0])).is_ok());
        drop(fourth);
        assert!(recognized(&alice()).is_ok());
    }

    #[test]
    fn administrators_get_in_where_all_places_are_busy() {
        let slots = ConnectionSlots::new(4);
        let busy = ["a", "b", "c"].map(|name| {
            let slot = slots.take();
            slot.recognize(&User::new(name, [""; 0])).unwrap();
            slot
        });
        let _open: Vec<_> = busy.iter().map(|slot| slot.activity().open()).collect();
        let (stranger, admin) = (slots.take(), slots.take());
        assert_eq!(stranger.recognize(&alice()), Err(NoSlot));
        assert_eq!(admin.recognize(&User::admin()), Ok(()));
        assert!(busy.iter().all(|slot| !slot.is_evicted()));
    }

    #[test]
    fn without_file_descriptors_a_stranger_leaves_else_one_who_is_idle() {
        let slots = ConnectionSlots::new(8);
        slots.make_room();
        let known = slots.take();
        known.recognize(&alice()).unwrap();
        let stranger = slots.take();
        slots.make_room();
        assert!(stranger.is_evicted() && !known.is_evicted());
        drop(stranger);
        slots.make_room();
        assert!(known.is_evicted());
    }
}
