//! Random fault plans: several lives with several faults each, by seed.
//!
//! `just disk-faults` runs very many. A failure prints the seed of the plan;
//! `EVENKEEL_DISK_FAULTS_SEED=SEED EVENKEEL_DISK_FAULTS=1` runs that plan alone.

use evenkeel_env::Env;

use super::{Ending, Life, World, live};
use crate::Options;
use crate::disk::simulated::{Fault, FaultPlan, SimulatedFiles, Tear};

/// The setting with the number of plans.
const PLANS: &str = "EVENKEEL_DISK_FAULTS";
/// The setting with the seed of the first plan. The other plans have the seeds after it.
const SEED: &str = "EVENKEEL_DISK_FAULTS_SEED";
/// How many plans every test run tries: about a second.
const PLANS_DEFAULT: u64 = 600;
/// Faults happen at calls before this one: about as many as the longest life makes.
const CALLS: u64 = 220;

fn setting(name: &str, default: u64) -> u64 {
    evenkeel_env::setting(name).unwrap_or_else(|error| panic!("{error}")).unwrap_or(default)
}

fn tear(random: &Env) -> Tear {
    match random.random_below(8) {
        0 => Tear::Nothing,
        1 => Tear::Everything,
        2 => Tear::Contents,
        3 => Tear::Names,
        _ => Tear::Random(random.random_u64()),
    }
}

fn fault(random: &Env) -> Fault {
    match random.random_below(7) {
        0 => Fault::CrashBefore(tear(random)),
        1 => Fault::CrashAfter(tear(random)),
        2 => Fault::Kill,
        3 | 4 => Fault::InputOutput(random.random_u64()),
        5 => Fault::NoSpace(random.random_u64()),
        _ => Fault::TooManyFiles,
    }
}

fn life(random: &Env) -> Life {
    let at = || (random.random_below(1 + random.random_below(CALLS))) as usize;
    let faults = (0..random.random_below(5)).map(|_| (at(), fault(random))).collect();
    let sometimes = || (random.random_below(8) == 0).then(at);
    let plan = FaultPlan {
        faults,
        too_many_files_from: sometimes(),
        full_from: sometimes(),
        ..FaultPlan::default()
    };
    let ending = if random.random_below(2) == 0 { Ending::Exit } else { Ending::Crash(tear(random)) };
    Life { plan, batches: random.random_below(30), ending }
}

fn run(seed: u64) -> Result<(), String> {
    let random = Env::seeded(seed);
    let options = Options::default()
        .checkpoint_bytes(500 + random.random_below(4000))
        .keep_changes(4 + random.random_below(20) as usize);
    let world = World { options, seed };
    let mut lives: Vec<Life> = (0..1 + random.random_below(4)).map(|_| life(&random)).collect();
    lives.extend([Life::sound(), Life::sound()]);
    live(&world, &SimulatedFiles::new(FaultPlan::default()), &lives)
        .map_err(|why| format!("seed {seed}: {why}"))
}

#[test]
fn random_plans_lose_nothing() {
    let (plans, first) = (setting(PLANS, PLANS_DEFAULT), setting(SEED, 1));
    let broken: Vec<_> = (first..first + plans).filter_map(|seed| Some((seed, run(seed).err()?))).collect();
    let seeds: Vec<u64> = broken.iter().map(|(seed, _)| *seed).collect();
    assert!(broken.is_empty(), "{} of {plans} plans, {seeds:?}: {}", broken.len(), broken[0].1);
}
