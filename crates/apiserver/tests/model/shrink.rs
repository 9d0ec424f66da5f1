//! Running operations, and finding few of them that show what many have shown.

use serde_json::Value;

use crate::model::Fault;
use crate::operation::Operation;
use crate::world::World;

/// How many shorter runs are tried: each takes from a third to all of the time of the run before it.
const TRIES_MAX: usize = 400;

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
    pub(crate) fn run(&self, operations: &[Operation]) -> Option<Found> {
        // Time stands still in memory, so that no watch ends by itself; disks do not wait for such a clock.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(!self.lasts).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(self.lasts, self.fault).await;
            world.tamper = self.tamper;
            for (index, operation) in operations.iter().enumerate() {
                if let Err(why) = world.run(operation).await {
                    return Some(Found { index, why });
                }
            }
            None
        })
    }

    /// Leaves operations out as long as the rest still shows a difference; gives the rest, and what differs there.
    pub(crate) fn shrink(&self, operations: &[Operation], why: String) -> (Vec<Operation>, String) {
        let (mut few, mut why) = (operations.to_vec(), why);
        let mut tries = 0;
        let mut size = few.len() / 2;
        while size > 0 {
            let mut start = 0;
            while start < few.len() && tries < TRIES_MAX {
                tries += 1;
                let end = few.len().min(start + size);
                let rest: Vec<Operation> = few[..start].iter().chain(&few[end..]).cloned().collect();
                match self.run(&rest) {
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
}
