//! A hash table from keys to slots.
//!
//! With a million keys, the cost of a queue operation is the wait for memory. A general hash table reads two places, its
//! control bytes and its buckets, and computes hashes when it grows. This table reads one place: a lookup is mostly one
//! cache line.
//!
//! It is open addressing with linear probing. A removal leaves no tombstone, because the cells behind it move up. A cell
//! contains the part of the hash that gives its home index, so that growing needs no keys.

use super::slots::Slot;

/// The least number of cells, as an exponent of two.
const BITS_MIN: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// The cells: a power of two, or none yet. At most half of them are taken, so that searches are short and end.
    cells: Vec<Cell>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    mark: Mark,
    /// The slot; `None` for a free cell.
    slot: Option<Slot>,
}

/// The part of a hash that a cell keeps. Its upper bits give the home index, its lower bits tell neighbours apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark(u32);

impl Mark {
    pub(super) fn of(hash: u64) -> Self {
        // Multiplying by an odd number with evenly spread bits lets all bits of the hash affect the upper half.
        Self((hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32)
    }

    /// A number below `count`, a power of two, from the lower bits of the mark.
    pub(super) fn low(self, count: usize) -> usize {
        self.0 as usize & (count - 1)
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Finds the slot with this mark for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, mark: Mark, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.place(mark, is).and_then(|place| self.cells[place].slot)
    }

    /// Inserts a slot that is not in the table yet.
    #[inline]
    pub(super) fn insert(&mut self, mark: Mark, slot: Slot) {
        if 2 * (self.len + 1) > self.cells.len() {
            self.grow();
        }
        self.len += 1;
        self.put(Cell { mark, slot: Some(slot) });
    }

    /// Reads the home cell of a mark, so that it is in the processor's cache soon.
    pub(super) fn touch(&self, mark: Mark) {
        std::hint::black_box(self.cells.get(self.home(mark)).is_some_and(|cell| cell.slot.is_some()));
    }

    pub(super) fn remove(&mut self, mark: Mark, slot: Slot) {
        let Some(mut hole) = self.place(mark, |other| other == slot) else { return };
        self.len -= 1;
        let mut next = self.after(hole);
        while self.cells[next].slot.is_some() {
            let home = self.home(self.cells[next].mark);
            // The cell may move up into the hole, unless its home is behind the hole.
            if self.distance(home, next) >= self.distance(hole, next) {
                self.cells[hole] = self.cells[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.cells[hole] = Cell::default();
    }

    #[inline]
    fn place(&self, mark: Mark, is: impl Fn(Slot) -> bool) -> Option<usize> {
        if self.cells.is_empty() {
            return None;
        }
        let mut place = self.home(mark);
        while let Cell { mark: other, slot: Some(slot) } = self.cells[place] {
            if other == mark && is(slot) {
                return Some(place);
            }
            place = self.after(place);
        }
        None
    }

    fn put(&mut self, cell: Cell) {
        let mut place = self.home(cell.mark);
        while self.cells[place].slot.is_some() {
            place = self.after(place);
        }
        self.cells[place] = cell;
    }

    fn grow(&mut self) {
        let cells = (2 * self.cells.len()).max(1 << BITS_MIN);
        let before = std::mem::replace(&mut self.cells, vec![Cell::default(); cells]);
        before.into_iter().filter(|cell| cell.slot.is_some()).for_each(|cell| self.put(cell));
    }

    /// The home index of a mark: as many of its upper bits as an index has.
    fn home(&self, mark: Mark) -> usize {
        ((u64::from(mark.0) * self.cells.len() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.cells.len() - 1)
    }

    /// The distance from one index forward to another, wrapping around at the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.cells.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few marks that differ in few bits make long searches that wrap around.
        #[test]
        fn it_finds_what_was_entered_and_not_removed(
            operations in prop::collection::vec((0..200usize, any::<bool>()), 1..600),
        ) {
            let mark = |key: usize| Mark((key as u32 % 23).wrapping_mul(0x0B21_6430).wrapping_sub(9));
            let mut table = Table::default();
            let mut known = BTreeMap::new();
            for (key, enter) in operations {
                match (enter, known.remove(&key)) {
                    (true, None) => {
                        table.insert(mark(key), Slot::at(key));
                        known.insert(key, ());
                    }
                    (true, Some(())) => drop(known.insert(key, ())),
                    (false, _) => table.remove(mark(key), Slot::at(key)),
                }
                prop_assert_eq!(table.len(), known.len());
                for key in 0..200 {
                    let slot = Slot::at(key);
                    let found = table.find(mark(key), |other| other == slot);
                    prop_assert_eq!(found, known.contains_key(&key).then_some(slot));
                }
            }
        }
    }
}
