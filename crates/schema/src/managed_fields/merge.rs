//! Merges a configuration into an object in place. The configuration wins, and nothing is removed.
//!
//! The merge visits only the fields of the configuration and records the differences on the way, so that a small
//! configuration costs little, however large the object is.

use super::compare::{Comparison, Found, aligned, visit, visit_items};
use super::items::Index;
use super::typed::{Atom, ListView, MapView, Node};
use crate::json::{Map, Value, same};

/// The result of a merge.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The fields that the merge changed.
    pub(super) compared: Comparison,
    /// Whether the merge changed anything, even the order of items.
    pub(super) changed: bool,
}

/// Merges a configuration into an object.
pub(super) fn merge(node: Node<'_>, live: &mut Value, config: &Value) -> Result<Merged, String> {
    let (mut walk, mut found) = (Walk { changed: false }, Found::default());
    walk.both(node, live, config, &mut found)?;
    Ok(Merged { compared: found.beneath, changed: walk.changed })
}

struct Walk {
    changed: bool,
}

impl Walk {
    fn both(
        &mut self,
        node: Node<'_>,
        live: &mut Value,
        config: &Value,
        found: &mut Found,
    ) -> Result<(), String> {
        match (node.atom(Some(config)), live, config) {
            // Two empty values are compared as a whole, so that an empty list and null differ.
            (_, live, config) if empty(live) && empty(config) => self.replace(node, live, config, found),
            (Atom::Map(map), Value::Object(live), Value::Object(config)) if !map.atomic => {
                self.fields(map, live, config, found)
            }
            (Atom::List(list), Value::Array(live), Value::Array(config)) if !list.atomic => {
                self.items(list, live, config, found)
            }
            // An empty map or list in the configuration leaves the live fields alone.
            (Atom::Map(map), Value::Object(_), _) if !map.atomic => Ok(()),
            (Atom::List(list), Value::Array(_), _) if !list.atomic => Ok(()),
            (_, live, config) => self.replace(node, live, config, found),
        }
    }

    fn replace(
        &mut self,
        node: Node<'_>,
        live: &mut Value,
        config: &Value,
        found: &mut Found,
    ) -> Result<(), String> {
        if !same(live, config) {
            visit(node, Some(live), Some(config), found);
            *live = config.clone();
            self.changed = true;
        }
        Ok(())
    }

    fn fields(
        &mut self,
        map: MapView<'_>,
        live: &mut Map,
        config: &Map,
        found: &mut Found,
    ) -> Result<(), String> {
        for (name, value) in config {
            let mut child = Found::default();
            // Most fields are unchanged. Borrowing them to be changed would copy what is shared.
            if live.get(name).is_some_and(|there| there.is_shared_with(value)) {
                continue;
            }
            match live.get_mut(name) {
                Some(there) => {
                    let node = map.field(name).map_or(Node::Deduced, |(node, _)| node);
                    self.both(node, there, value, &mut child)?;
                }
                None => {
                    if let Some((node, _)) = map.field(name) {
                        visit(node, None, Some(value), &mut child);
                    }
                    live.insert(name.clone(), value.clone());
                    self.changed = true;
                }
            }
            if !child.is_empty() {
                found.put(crate::fieldset::PathElement::field(name), child);
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        list: ListView<'_>,
        live: &mut Vec<Value>,
        config: &[Value],
        found: &mut Found,
    ) -> Result<(), String> {
        let plan = Plan::new(list, live, config)?;
        if plan.has_duplicates {
            return self.rearrange_duplicates(list, live, config, &plan, found);
        }
        if let Some(places) = plan.in_place() {
            for (place, item) in places.zip(config) {
                self.item(list, &mut live[place], item, found)?;
            }
            return Ok(());
        }
        self.changed = true;
        let mut old: Vec<Option<Value>> = live.drain(..).map(Some).collect();
        for slot in plan.slots() {
            let item = match slot {
                Slot::Live(at) => old[at].take(),
                Slot::Config(at) => match plan.live_of[at].and_then(|place| old[place].take()) {
                    Some(mut there) => {
                        self.item(list, &mut there, &config[at], found)?;
                        Some(there)
                    }
                    None => {
                        let mut child = Found::default();
                        visit(list.items(), None, Some(&config[at]), &mut child);
                        found.put_item(list, &config[at], child);
                        Some(config[at].clone())
                    }
                },
            };
            live.extend(item);
        }
        Ok(())
    }

    fn item(
        &mut self,
        list: ListView<'_>,
        live: &mut Value,
        config: &Value,
        found: &mut Found,
    ) -> Result<(), String> {
        let mut child = Found::default();
        self.both(list.items(), live, config, &mut child)?;
        found.put_item(list, config, child);
        Ok(())
    }

    /// Merges a list whose live items have duplicate keys: an item of the configuration replaces all live items with its key.
    fn rearrange_duplicates(
        &mut self,
        list: ListView<'_>,
        live: &mut Vec<Value>,
        config: &[Value],
        plan: &Plan,
        found: &mut Found,
    ) -> Result<(), String> {
        let mut merged = Vec::with_capacity(live.len());
        for slot in plan.slots() {
            merged.push(match slot {
                Slot::Live(at) => live[at].clone(),
                Slot::Config(at) => {
                    let mut item = plan.live_of[at].map_or(Value::Null, |place| live[place].clone());
                    match item {
                        Value::Null => item = config[at].clone(),
                        _ => self.both(list.items(), &mut item, &config[at], &mut Found::default())?,
                    }
                    item
                }
            });
        }
        visit_items(list, live, &merged, found);
        self.changed |= *live != merged;
        *live = merged;
        Ok(())
    }
}

/// Whether a value is null, an empty list or an empty map.
fn empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// The source of an item of the merged list.
enum Slot {
    /// A live item that the configuration does not contain.
    Live(usize),
    /// An item of the configuration.
    Config(usize),
}

/// Pairs the items of the two lists by their keys.
struct Plan {
    /// For each item of the configuration, the live item with its key.
    live_of: Vec<Option<usize>>,
    /// For each live item, the item of the configuration with its key. Empty if both lists have the same keys in the same order.
    config_of: Vec<Option<usize>>,
    has_duplicates: bool,
}

impl Plan {
    fn new(list: ListView<'_>, live: &[Value], config: &[Value]) -> Result<Self, String> {
        let wanted = Index::of(list, config)?;
        let index = Index::of(list, live)?;
        let has_duplicates = index.has_duplicates();
        if !has_duplicates && aligned(list, live, config) {
            return Ok(Self {
                live_of: (0..live.len()).map(Some).collect(),
                config_of: Vec::new(),
                has_duplicates,
            });
        }
        let mut config_of = vec![None; live.len()];
        let mut live_of = vec![None; config.len()];
        for (key, at) in wanted.into_sorted() {
            let places = index.find(key);
            for (_, place) in places {
                config_of[*place] = Some(at);
            }
            if let [(_, place)] = places {
                live_of[at] = Some(*place);
            }
        }
        Ok(Self { live_of, config_of, has_duplicates })
    }

    /// The live positions of the configuration's items, if all of them exist and are in the live order.
    fn in_place(&self) -> Option<impl Iterator<Item = usize>> {
        let known = self.live_of.iter().all(Option::is_some) && self.live_of.is_sorted();
        known.then(|| self.live_of.iter().flatten().copied())
    }

    /// The order of the merged list: that of the live list, except that the configuration's items are in its order.
    fn slots(&self) -> Vec<Slot> {
        let is_there: Vec<bool> = {
            let mut is_there = vec![false; self.live_of.len()];
            self.config_of.iter().flatten().for_each(|at| is_there[*at] = true);
            is_there
        };
        let mut shared = (0..self.live_of.len()).filter(|at| is_there[*at]).peekable();
        let (lefts, rights) = (self.config_of.len(), self.live_of.len());
        let mut done = vec![false; rights];
        let mut slots = Vec::with_capacity(lefts.max(rights));
        let (mut l, mut r) = (0, 0);
        while l < lefts || r < rights {
            let meet = l < lefts && r < rights && self.config_of[l] == Some(r);
            if l < lefts && !meet {
                // Only the live list has this item: it keeps its position.
                let Some(named) = self.config_of[l] else {
                    slots.push(Slot::Live(l));
                    l += 1;
                    continue;
                };
                // The configuration has another shared item first: this one comes when it is its turn.
                if r < rights && shared.peek().is_some_and(|next| *next != named) {
                    l += 1;
                    continue;
                }
                l += usize::from(done[named]);
            }
            if r >= rights {
                continue;
            }
            slots.push(Slot::Config(r));
            done[r] = true;
            if shared.peek() == Some(&r) {
                shared.next();
            }
            r += 1;
            l += usize::from(meet);
        }
        slots
    }
}
