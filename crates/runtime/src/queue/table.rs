//! Finds slots by the hashes of their keys.
//!
//! With a million keys, an operation of the queue costs what it waits for memory. A general hash table is looked at in
//! two places, its control bytes and its buckets, and asks for hashes when it grows; this one has all that it needs in
//! one place: a lookup is mostly one line of memory.
//!
//! Cells are searched one after the other from where the hash says; what is removed leaves no mark, since those behind
//! it move up. The place of a cell follows from the part of the hash in it, so that growing asks nobody.

use super::slots::Slot;

/// The least number of cells, as a power of two.
const BITS_MIN: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// A power of two of them, or none yet. At most half are taken, so that searches are short and end.
    cells: Vec<Cell>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    mark: Mark,
    /// None is free.
    slot: Option<Slot>,
}

/// The part of a hash that is kept. Its upper bits say where the search begins, its lower ones tell neighbours apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark(u32);

impl Mark {
    pub(super) fn of(hash: u64) -> Self {
        // By an odd number with its bits spread evenly: all of the hash takes part in the upper half.
        Self((hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32)
    }

    /// A number below `count`, a power of two, from its lower bits.
    pub(super) fn low(self, count: usize) -> usize {
        self.0 as usize & (count - 1)
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot with this mark that `is` the one.
    #[inline]
    pub(super) fn find(&self, mark: Mark, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.place(mark, is).and_then(|place| self.cells[place].slot)
    }

    /// Enters a slot that is not in it.
    #[inline]
    pub(super) fn insert(&mut self, mark: Mark, slot: Slot) {
        if 2 * (self.len + 1) > self.cells.len() {
            self.grow();
        }
        self.len += 1;
        self.put(Cell { mark, slot: Some(slot) });
    }

    /// Reads where the search for a mark begins, so that it is at hand soon.
    pub(super) fn touch(&self, mark: Mark) {
        std::hint::black_box(self.cells.get(self.home(mark)).is_some_and(|cell| cell.slot.is_some()));
    }

    pub(super) fn remove(&mut self, mark: Mark, slot: Slot) {
        let Some(mut hole) = self.place(mark, |other| other == slot) else { return };
        self.len -= 1;
        let mut next = self.after(hole);
        while self.cells[next].slot.is_some() {
            let home = self.home(self.cells[next].mark);
            // It may move up to the hole unless its search begins behind it.
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

    /// Where the search for a mark begins: as many of its upper bits as there are bits in a place.
    fn home(&self, mark: Mark) -> usize {
        ((u64::from(mark.0) * self.cells.len() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.cells.len() - 1)
    }

    /// How far it is from one place on to another, over the end.
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
        /// Few marks and few bits that differ: long searches, over the end and back.
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
