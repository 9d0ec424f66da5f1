//! Tests of the journal on a disk that fails: what was acknowledged or seen is never lost, and the store always opens.
//!
//! A *life* is one process on a simulated disk: it opens the store, writes batches, and exits, is killed, or ends with a crash
//! of the machine. The committer and its checkpoints run on the thread of the test, so that a life is a function of its fault
//! plan. [`Promises`] records what each life was answered and shown, and checks it in every later life.

mod bytes;
mod crash_matrix;
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
use super::data_dir::DataDir;
use super::queue::{Queue, Submission};
use super::recover::recover;
use super::simulated::{FaultPlan, SimulatedFiles, Tear};
use crate::journal::Answers;
use crate::shared::Shared;
use crate::{Expect, Op, OpenError, Options, Write};
use promises::Promises;

const DIR: &str = "/data";

/// How a life ends if its fault plan does not end it.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The process ends. What it wrote stays in the page cache.
    Exit,
    /// The machine crashes.
    Crash(Tear),
}

/// One process on the disk.
#[derive(Clone, Debug)]
struct Life {
    plan: FaultPlan,
    /// How many batches the process writes.
    batches: u64,
    ending: Ending,
}

impl Life {
    /// A life without faults, until the machine crashes and loses everything that is not durable.
    fn sound() -> Self {
        Self { plan: FaultPlan::default(), batches: 3, ending: Ending::Crash(Tear::Nothing) }
    }
}

/// The settings that all lives of a test share.
#[derive(Clone, Debug)]
struct World {
    options: Options,
    /// Decides keys, lengths and expectations.
    seed: u64,
}

impl Default for World {
    /// Small bounds, so that a few batches cause new segments, checkpoints and their removal.
    fn default() -> Self {
        Self { options: Options::default().checkpoint_bytes(2500).keep_changes(8), seed: 1 }
    }
}

/// Opens the store on a simulated disk, on this thread.
fn open(disk: &SimulatedFiles, options: &Options) -> Result<Committer<()>, OpenError> {
    let data_dir = DataDir::open(Arc::new(disk.clone()), Path::new(DIR))?;
    let recovered = recover(&data_dir, options.clone())?;
    let share = |state| Arc::new(Shared::of(Env::seeded(1), state));
    let io = |source| OpenError::Io { path: DIR.to_owned(), source };
    let queue = Arc::new(Queue::new());
    Committer::new(data_dir, recovered, options, share, queue, |write| Ok(Running::Later(write))).map_err(io)
}

/// Writes one batch.
fn write(committer: &mut Committer<()>, writes: Vec<Write<()>>) -> Answers<()> {
    let (answer, mut answered) = oneshot::channel();
    committer.serve(vec![Submission { writes, answer }]);
    answered.try_recv().expect("the committer answers what it serves")
}

/// Returns the writes of a batch: puts with unique values, deletions, and some that must conflict.
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

/// Runs the lives one after the other on one disk. Returns the first broken promise as an error.
fn live(world: &World, disk: &SimulatedFiles, lives: &[Life]) -> Result<(), String> {
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
    disk: &SimulatedFiles,
    life: &Life,
    nth: usize,
    promises: &mut Promises,
) -> Result<(), String> {
    let is_sound = life.plan.is_sound();
    let mut committer = match open(disk, &world.options) {
        Ok(committer) => committer,
        // A failing disk may prevent the opening, but the store must not be reported as damaged.
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
        // A stopped process does not answer.
        if !disk.has_stopped() {
            promises.hear(asked, answers, is_sound)?;
        }
        committer.maintain();
        if !disk.has_stopped() {
            promises.observe(committer.shared())?;
        }
    }
    Ok(())
}
