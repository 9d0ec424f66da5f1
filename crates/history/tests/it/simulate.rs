//! A correct simulated server, and clients whose requests overlap and sometimes get no answer.

use std::collections::BTreeMap;

use evenkeel_history::{
    Answer, Call, Change, ChangeKind, Content, History, Key, Listing, Object, Recorder, Revision, Tick,
};

/// How many objects there are, and how many clients send requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) keys: usize,
    pub(crate) clients: usize,
}

impl Load {
    /// A small load, whose histories are short enough to read.
    pub(crate) const SMALL: Self = Self { keys: 3, clients: 5 };
    /// The load of `evenkeel-kill`.
    pub(crate) const OF_KILL: Self = Self { keys: 6, clients: 16 };
}

/// How many clients watch.
const WATCHERS: usize = 2;

/// A request without an answer yet.
enum Open {
    /// The request was sent.
    Called { key: Key, call: Call, called: Tick },
    /// The server has served the request; the client has no answer yet.
    Served { key: Key, call: Call, called: Tick, answer: Answer },
    /// A list was requested.
    Listing { called: Tick },
    /// The server has read the list.
    Listed { called: Tick, revision: Revision, items: BTreeMap<Key, Object> },
}

struct Watcher {
    stream: usize,
    seen: Revision,
}

/// One server, which dies and restarts, and its clients.
pub(crate) struct World {
    random: fastrand::Rng,
    recorder: Recorder,
    revision: Revision,
    objects: BTreeMap<Key, Object>,
    log: Vec<(Key, ChangeKind, Object)>,
    open: Vec<Option<Open>>,
    keys: usize,
    watchers: Vec<Watcher>,
    tokens: u64,
    servers: usize,
}

/// Returns a history of this many steps.
pub(crate) fn history(seed: u64, steps: usize) -> History {
    history_under(Load::SMALL, seed, steps)
}

/// Returns a history of this many steps under a load.
pub(crate) fn history_under(load: Load, seed: u64, steps: usize) -> History {
    let mut world = World::new(load, seed);
    for _ in 0..steps {
        world.step();
    }
    world.end()
}

impl World {
    fn new(load: Load, seed: u64) -> Self {
        let (recorder, revision) = (Recorder::new(load.keys), 10);
        let watchers = (0..WATCHERS)
            .map(|watcher| Watcher { stream: recorder.watching(watcher, revision), seen: revision })
            .collect();
        Self {
            random: fastrand::Rng::with_seed(seed),
            recorder,
            revision,
            objects: BTreeMap::new(),
            log: Vec::new(),
            open: (0..load.clients).map(|_| None).collect(),
            keys: load.keys,
            watchers,
            tokens: 0,
            servers: 0,
        }
    }

    fn step(&mut self) {
        match self.random.u32(0..100) {
            0..70 => {
                let client = self.random.usize(0..self.open.len());
                let open = self.open[client].take();
                self.open[client] = self.advance(open);
            }
            70..97 => self.show(),
            _ => self.kill(),
        }
    }

    /// Takes one step of one client: call, serve or answer.
    fn advance(&mut self, open: Option<Open>) -> Option<Open> {
        match open {
            None if self.random.u32(0..8) == 0 => Some(Open::Listing { called: self.recorder.tick() }),
            None => {
                let key = self.random.usize(0..self.keys);
                let call = self.call(key);
                Some(Open::Called { key, call, called: self.recorder.tick() })
            }
            Some(Open::Called { key, call, called }) => {
                let answer = self.serve(key, call);
                Some(Open::Served { key, call, called, answer })
            }
            Some(Open::Served { key, call, called, answer }) => {
                self.recorder.answered(key, call, called, answer);
                None
            }
            Some(Open::Listing { called }) => {
                Some(Open::Listed { called, revision: self.revision, items: self.objects.clone() })
            }
            Some(Open::Listed { called, revision, items }) => {
                let returned = self.recorder.tick();
                self.recorder.listed(Listing { called, returned, revision, items });
                None
            }
        }
    }

    fn call(&mut self, key: Key) -> Call {
        self.tokens += 1;
        let token = self.tokens;
        // Mostly the current revision, sometimes a stale one.
        let seen = match self.random.bool() {
            true => self.objects.get(&key).cloned(),
            false => self.log.iter().rev().skip(1).find(|(at, ..)| *at == key).map(|(.., old)| old.clone()),
        };
        let expected = seen.as_ref().map(|object| object.revision).filter(|_| self.random.bool());
        match (self.random.u32(0..5), seen) {
            (0, _) => Call::Create { set: token },
            (1, Some(seen)) => {
                Call::Update { expected: seen.revision, content: Content { set: token, ..seen.content } }
            }
            (2, _) => Call::Patch { merged: token, expected },
            (3, _) => Call::Delete { expected },
            _ => Call::Get,
        }
    }

    fn serve(&mut self, key: Key, call: Call) -> Answer {
        let found = self.objects.get(&key).cloned();
        let expected = match call {
            Call::Update { expected, .. } => Some(expected),
            Call::Patch { expected, .. } | Call::Delete { expected } => expected,
            Call::Create { .. } | Call::Get => None,
        };
        match (call, found) {
            (Call::Create { .. }, Some(_)) => Answer::Exists,
            (Call::Create { set }, None) => {
                let uid = format!("uid-{set}");
                self.write(key, ChangeKind::Added, uid, Content { set, merged: None })
            }
            (_, None) => Answer::NotFound,
            (Call::Get, Some(found)) => Answer::Object(found),
            (_, Some(found)) if expected.is_some_and(|expected| expected != found.revision) => {
                Answer::Conflict
            }
            (Call::Update { content, .. }, Some(found)) => {
                self.write(key, ChangeKind::Modified, found.uid, content)
            }
            (Call::Patch { merged, .. }, Some(found)) => {
                let content = Content { merged: Some(merged), ..found.content };
                self.write(key, ChangeKind::Modified, found.uid, content)
            }
            (Call::Delete { .. }, Some(found)) => {
                self.write(key, ChangeKind::Deleted, found.uid.clone(), found.content);
                Answer::Deleted { uid: found.uid, revision: None }
            }
        }
    }

    fn write(&mut self, key: Key, kind: ChangeKind, uid: String, content: Content) -> Answer {
        self.revision += self.random.u64(1..3);
        let object = Object { revision: self.revision, uid, content };
        match kind {
            ChangeKind::Deleted => drop(self.objects.remove(&key)),
            _ => drop(self.objects.insert(key, object.clone())),
        }
        self.log.push((key, kind, object.clone()));
        Answer::Object(object)
    }

    /// Shows one watcher its next event.
    fn show(&mut self) {
        let watcher = self.random.usize(0..WATCHERS);
        self.show_to(watcher);
    }

    fn show_to(&mut self, watcher: usize) -> bool {
        let watcher = &mut self.watchers[watcher];
        let next = self.log.iter().find(|(.., object)| object.revision > watcher.seen);
        let Some((key, kind, object)) = next.cloned() else { return false };
        watcher.seen = object.revision;
        let seen = self.recorder.tick();
        self.recorder.changed(watcher.stream, Change { key, kind, object, seen });
        true
    }

    /// The server dies: open requests get no answer, whether served or not, and watches begin anew.
    fn kill(&mut self) {
        for client in 0..self.open.len() {
            match self.open[client].take() {
                Some(Open::Called { key, call, called }) => {
                    if self.random.bool() {
                        self.serve(key, call);
                    }
                    self.recorder.lost(key, call, called, self.servers);
                }
                Some(Open::Served { key, call, called, .. }) => {
                    self.recorder.lost(key, call, called, self.servers);
                }
                Some(Open::Listing { .. } | Open::Listed { .. }) | None => {}
            }
        }
        self.recorder.died();
        self.servers += 1;
        for (at, watcher) in self.watchers.iter_mut().enumerate() {
            if self.random.u32(0..4) == 0 {
                // The revision is gone (410): the watcher lists and watches from there.
                let (called, returned) = (self.recorder.tick(), self.recorder.tick());
                let (revision, items) = (self.revision, self.objects.clone());
                self.recorder.listed(Listing { called, returned, revision, items });
                watcher.seen = revision;
            }
            watcher.stream = self.recorder.watching(at, watcher.seen);
        }
    }

    /// Answers all requests, and shows every watcher the last revision.
    fn end(mut self) -> History {
        for client in 0..self.open.len() {
            while let Some(open) = self.open[client].take() {
                self.open[client] = self.advance(Some(open));
            }
        }
        self.tokens += 1;
        let (called, call) = (self.recorder.tick(), Call::Create { set: self.tokens });
        let answer = self.serve(0, call);
        self.recorder.answered(0, call, called, answer);
        for watcher in 0..WATCHERS {
            while self.show_to(watcher) {}
        }
        let end = self.log.last().map(|(.., object)| object.revision);
        self.recorder.finish(end)
    }
}
