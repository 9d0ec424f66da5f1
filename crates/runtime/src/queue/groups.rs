//! How many ready keys there are of each group, for fairness among them.

use std::num::NonZeroU32;
use std::sync::Arc;

use evenkeel_env::HashMap;

/// The number of a group, for as long as it has ready keys: one more than its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group(NonZeroU32);

impl Group {
    fn at(place: usize) -> Self {
        let number = u32::try_from(place).ok().and_then(|place| NonZeroU32::MIN.checked_add(place));
        Self(number.expect("there are fewer groups than keys"))
    }

    fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Looked up only. A group without ready keys has no entry.
    by_name: HashMap<Arc<str>, Group>,
    counts: Vec<(Arc<str>, usize)>,
    free: Vec<Group>,
}

impl Groups {
    /// Counts a key into its group; says how many of it were ready before. Keys without a group are fair as they are.
    pub(super) fn enter(&mut self, name: Option<&Arc<str>>) -> (Option<Group>, usize) {
        let Some(name) = name else { return (None, 0) };
        let group = match self.by_name.get(name) {
            Some(group) => *group,
            None => self.begin(name),
        };
        let count = &mut self.counts[group.place()].1;
        *count += 1;
        (Some(group), *count - 1)
    }

    pub(super) fn leave(&mut self, group: Option<Group>) {
        let Some(group) = group else { return };
        let (name, count) = &mut self.counts[group.place()];
        *count -= 1;
        if *count == 0 {
            self.by_name.remove(name);
            self.free.push(group);
        }
    }

    fn begin(&mut self, name: &Arc<str>) -> Group {
        let group = match self.free.pop() {
            Some(group) => {
                self.counts[group.place()] = (name.clone(), 0);
                group
            }
            None => {
                self.counts.push((name.clone(), 0));
                Group::at(self.counts.len() - 1)
            }
        };
        self.by_name.insert(name.clone(), group);
        group
    }
}
