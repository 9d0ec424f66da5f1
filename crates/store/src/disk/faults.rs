//! The journal on a disk that loses, tears and fails: what was acknowledged or seen stays, and every open works.
//!
//! A *life* is one process on a simulated disk: it opens the store, writes batches, and ends by itself, by a kill or by
//! a crash of the machine. The committer and its checkpoints run on the test's own thread, so that a life is a function
//! of its plan. [`Promises`] remembers what the lives were told and shown, and holds every later life to it.

mod bytes;
mod everywhere;
mod fixture;
mod health;
mod promises;
mod random;
mod restore;

use std::path::Path;
use std::sync::Arc;

use evenkeel_env::Env;
use tokio::sync::oneshot;

use super::committer::{Committer, Running};
use super::folder::Folder;
use super::queue::{Queue, Submission};
use super::recover::recover;
use super::simulated::{Plan, Simulated, Tear};
use crate::journal::Answers;
use crate::state::Shared;
use crate::{Expect, Op, OpenError, Options, Write};
use promises::Promises;

const DIR: &str = "/data";

/// How a life ends whose plan does not end it.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The process ends; what it wrote stays in the cache.
    Exit,
    /// The machine crashes.
    Crash(Tear),
}

/// One process on the disk.
#[derive(Clone, Debug)]
struct Life {
    plan: Plan,
    /// How many batches it writes.
    batches: u64,
    ending: Ending,
}

impl Life {
    /// A life in which nothing goes wrong until its machine crashes and loses everything that is not durable.
    fn sound() -> Self {
        Self { plan: Plan::default(), batches: 3, ending: Ending::Crash(Tear::Nothing) }
    }
}

/// What the lives of a test have in common.
#[derive(Clone, Debug)]
struct World {
    options: Options,
    /// Chooses keys, lengths and expectations.
    seed: u64,
}

impl Default for World {
    /// Small, so that a few batches roll segments, make checkpoints and remove them.
    fn default() -> Self {
        Self { options: Options::default().checkpoint_bytes(2500).keep_changes(8), seed: 1 }
    }
}

/// Opens the store on a simulated disk, as [`super::open`] does, on this thread.
fn open(disk: &Simulated, options: &Options) -> Result<Committer<()>, OpenError> {
    let folder = Folder::open(Arc::new(disk.clone()), Path::new(DIR))?;
    let recovered = recover(&folder, options.clone())?;
    let share = |state| Arc::new(Shared::of(Env::seeded(1), state));
    let io = |source| OpenError::Io { path: DIR.to_owned(), source };
    let queue = Arc::new(Queue::new());
    Committer::new(folder, recovered, options, share, queue, |write| Ok(Running::Later(write))).map_err(io)
}

/// Writes one batch.
fn write(committer: &mut Committer<()>, writes: Vec<Write<()>>) -> Answers<()> {
    let (answer, mut answered) = oneshot::channel();
    committer.serve(vec![Submission { writes, answer }]);
    answered.try_recv().expect("the committer answers what it serves")
}

/// The writes of a batch: some keys, some deletions, some that must conflict, every value unlike all others.
fn batch(random: &Env, name: &str) -> Vec<Write<()>> {
    let one = |nth| {
        let key = format!("/a/{}", random.random_below(5)).into();
        let expect = if random.random_below(6) == 0 { Expect::Absent } else { Expect::Any };
        let op = match random.random_below(6) {
            0 => Op::Delete,
            _ => {
                let padding = "x".repeat(random.random_below(700) as usize);
                Op::Put(format!("{name}.{nth} {padding}").into(), ())
            }
        };
        Write { key, expect, op }
    };
    (0..1 + random.random_below(3)).map(one).collect()
}

/// Lives one life after the other on one disk; says which promise was broken.
fn live(world: &World, disk: &Simulated, lives: &[Life]) -> Result<(), String> {
    let mut promises = Promises::default();
    for (nth, life) in lives.iter().enumerate() {
        disk.restart(life.plan.clone());
        let lived = live_one(world, disk, life, nth, &mut promises);
        lived.map_err(|why| format!("life {nth}: {why}\n{lives:#?}"))?;
        if let Ending::Crash(tear) = life.ending
            && !disk.has_stopped()
        {
            disk.crash(tear);
        }
    }
    Ok(())
}

fn live_one(
    world: &World,
    disk: &Simulated,
    life: &Life,
    nth: usize,
    promises: &mut Promises,
) -> Result<(), String> {
    let is_sound = life.plan.is_sound();
    let mut committer = match open(disk, &world.options) {
        Ok(committer) => committer,
        // A disk that fails may keep a store from opening, but is no reason to call the store damaged.
        Err(OpenError::Io { .. }) if !is_sound => return Ok(()),
        Err(error) => return Err(format!("cannot open: {error}; {:?}", disk.names())),
    };
    if !disk.has_stopped() {
        promises.observe(committer.shared())?;
    }
    let random = Env::seeded(world.seed + nth as u64);
    for number in 0..life.batches {
        if disk.has_stopped() {
            break;
        }
        let writes = batch(&random, &format!("{nth}.{number}"));
        promises.attempt(&writes);
        let asked: Vec<_> = writes.iter().map(promises::asked).collect();
        let answers = write(&mut committer, writes);
        // A process that has stopped answers nobody.
        if !disk.has_stopped() {
            promises.hear(asked, answers, is_sound)?;
        }
        committer.keep_house();
        if !disk.has_stopped() {
            promises.observe(committer.shared())?;
        }
    }
    Ok(())
}
