//! Runs operations, and reduces a failing sequence to a short one.

use serde_json::Value;

use crate::model::Fault;
use crate::operation::Operation;
use crate::world::World;

/// The maximum number of shorter runs; each takes between a third and all of the time of the run before it.
const TRIES_MAX: usize = 400;

/// The lengths of the ends of a long run that are tried first.
const TAILS: [usize; 3] = [500, 5_000, 50_000];

/// How operations are run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setting {
    /// Whether the store is on disk.
    pub(crate) lasts: bool,
    /// The deliberate fault of the model.
    pub(crate) fault: Option<Fault>,
    /// A deliberate change of the server's responses.
    pub(crate) tamper: Option<fn(&mut Value)>,
}

/// The first operation whose result differs from the model, and the difference.
pub(crate) struct Found {
    pub(crate) index: usize,
    pub(crate) why: String,
}

impl Setting {
    /// Runs operations on a new server, up to the first difference.
    pub(crate) fn run(&self, operations: impl IntoIterator<Item = Operation>) -> Option<Found> {
        // With a store in memory, time is paused, so that no watch times out. With a store on disk it is not:
        // paused time would advance whenever the runtime waits for the disk.
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

    /// Removes operations as long as the rest still shows a difference. Returns the rest and its difference.
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

    /// The end of a long run, if it shows a difference on its own. That is likely, because there are few
    /// objects and old operations hardly affect them.
    fn tail(&self, operations: &[Operation]) -> Option<(Vec<Operation>, String)> {
        let windows = TAILS.into_iter().filter(|it| *it < operations.len());
        windows.map(|it| &operations[operations.len() - it..]).find_map(|tail| {
            let found = self.run(tail.iter().cloned())?;
            Some((tail[..=found.index].to_vec(), found.why))
        })
    }
}
