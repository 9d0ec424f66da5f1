//! Running operations, and finding few of them that show what many have shown.

use serde_json::Value;

use crate::model::Fault;
use crate::operation::Operation;
use crate::world::World;

/// How many shorter runs are tried: each takes from a third to all of the time of the run before it.
const TRIES_MAX: usize = 400;

/// How much of the end of a long run is tried by itself first.
const TAILS: [usize; 3] = [500, 5_000, 50_000];

/// In which world operations are run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setting {
    /// Whether the store is on disk.
    pub(crate) lasts: bool,
    /// What the model gets wrong.
    pub(crate) fault: Option<Fault>,
    /// What becomes of the server's answers.
    pub(crate) tamper: Option<fn(&mut Value)>,
}

/// The first operation whose outcome differs, and how.
pub(crate) struct Found {
    pub(crate) index: usize,
    pub(crate) why: String,
}

impl Setting {
    /// Runs operations in a new world, up to the first difference.
    pub(crate) fn run(&self, operations: impl IntoIterator<Item = Operation>) -> Option<Found> {
        // Time stands still in memory, so that no watch ends by itself; disks do not wait for such a clock.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(!self.lasts).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(self.lasts, self.fault).await;
            world.tamper = self.tamper;
            for (index, operation) in operations.into_iter().enumerate() {
                if let Err(why) = world.run(&operation).await {
                    return Some(Found { index, why });
                }
            }
            None
        })
    }

    /// Leaves operations out as long as the rest still shows a difference; gives the rest, and what differs there.
    pub(crate) fn shrink(&self, operations: Vec<Operation>, why: String) -> (Vec<Operation>, String) {
        let (mut few, mut why) = self.tail(&operations).unwrap_or((operations, why));
        let mut tries = 0;
        let mut size = few.len() / 2;
        while size > 0 {
            let mut start = 0;
            while start < few.len() && tries < TRIES_MAX {
                tries += 1;
                let end = few.len().min(start + size);
                let rest: Vec<Operation> = few[..start].iter().chain(&few[end..]).cloned().collect();
                match self.run(rest.iter().cloned()) {
                    Some(found) => {
                        few = rest[..=found.index].to_vec();
                        why = found.why;
                    }
                    None => start += size,
                }
            }
            size /= 2;
        }
        (few, why)
    }

    /// The end of many operations, where that alone shows a difference: there are few objects, and most of what
    /// happened to them long ago is forgotten.
    fn tail(&self, operations: &[Operation]) -> Option<(Vec<Operation>, String)> {
        let windows = TAILS.into_iter().filter(|it| *it < operations.len());
        windows.map(|it| &operations[operations.len() - it..]).find_map(|tail| {
            let found = self.run(tail.iter().cloned())?;
            Some((tail[..=found.index].to_vec(), found.why))
        })
    }
}
