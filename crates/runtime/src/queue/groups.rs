//! Counts the ready keys of each group, so that groups can take turns.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use evenkeel_env::HashMap;

/// The number of a group while it has members: its index plus one.
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
    /// Groups by name; a group without members has no entry. Only used for lookups, never iterated.
    by_name: HashMap<Arc<str>, Group>,
    counts: Vec<Counts>,
    free: Vec<Group>,
}

#[derive(Debug)]
struct Counts {
    name: Arc<str>,
    /// The number of keys of the group, ready or not.
    members: usize,
    ready: Ready,
}

/// The number of ready keys of a group for each priority. Most groups have keys of one priority, for which a tree would
/// waste memory.
#[derive(Debug, Default)]
struct Ready {
    priority: i32,
    count: usize,
    /// The counts of other priorities than the first; no count is zero.
    others: BTreeMap<i32, usize>,
}

impl Ready {
    /// Counts one more key. Returns how many there were before.
    fn enter(&mut self, priority: i32) -> usize {
        if self.count == 0 {
            self.priority = priority;
            self.count = self.others.remove(&priority).unwrap_or(0);
        }
        let count = match priority == self.priority {
            true => &mut self.count,
            false => self.others.entry(priority).or_default(),
        };
        *count += 1;
        *count - 1
    }

    /// Counts one key less. Returns how many are left.
    fn leave(&mut self, priority: i32) -> usize {
        if priority == self.priority {
            self.count -= 1;
            return self.count;
        }
        let Some(count) = self.others.get_mut(&priority) else { return 0 };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.others.remove(&priority);
        }
        left
    }
}

impl Groups {
    /// Adds a key to its group.
    pub(super) fn join(&mut self, name: &Arc<str>) -> Group {
        let group = match self.by_name.get(name) {
            Some(group) => *group,
            None => self.begin(name),
        };
        self.counts[group.place()].members += 1;
        group
    }

    /// Removes a key from its group.
    pub(super) fn leave(&mut self, group: Group) {
        let counts = &mut self.counts[group.place()];
        counts.members -= 1;
        if counts.members == 0 {
            self.by_name.remove(&counts.name);
            self.free.push(group);
        }
    }

    /// Counts a key as ready. Returns how many keys of its group and priority were ready before.
    #[inline]
    pub(super) fn enter_ready(&mut self, group: Group, priority: i32) -> usize {
        self.counts[group.place()].ready.enter(priority)
    }

    /// Counts a key as no longer ready. Returns how many keys of its group and priority are left.
    #[inline]
    pub(super) fn leave_ready(&mut self, group: Group, priority: i32) -> usize {
        self.counts[group.place()].ready.leave(priority)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    fn begin(&mut self, name: &Arc<str>) -> Group {
        let counts = Counts { name: name.clone(), members: 0, ready: Ready::default() };
        let group = match self.free.pop() {
            Some(group) => {
                self.counts[group.place()] = counts;
                group
            }
            None => {
                self.counts.push(counts);
                Group::at(self.counts.len() - 1)
            }
        };
        self.by_name.insert(name.clone(), group);
        group
    }
}
