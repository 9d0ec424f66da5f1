//! Lays a configuration over an object where it stands: what the configuration says wins, nothing is removed.
//!
//! Only what the configuration names is looked at, and what differs is noted on the way, so that a small
//! configuration costs little whatever the size of the object.

use super::compare::{Comparison, Found, aligned, same_scalar, visit, visit_items};
use super::items::Index;
use super::typed::{Atom, ListView, MapView, Node};
use crate::json::{Map, Value, same};

/// What a merge did to an object.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The fields that differ from before.
    pub(super) compared: Comparison,
    /// Whether anything differs, the order of items included.
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
            // Two values without parts are leaves, so that empty and null stay different.
            (_, live, config) if empty(live) && empty(config) => self.replace(node, live, config, found),
            (Atom::Map(map), Value::Object(live), Value::Object(config)) if !map.atomic => {
                self.fields(map, live, config, found)
            }
            (Atom::List(list), Value::Array(live), Value::Array(config)) if !list.atomic => {
                self.items(list, live, config, found)
            }
            // A configuration that has no parts says nothing about those that are there.
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
        live: &mut Map<String, Value>,
        config: &Map<String, Value>,
        found: &mut Found,
    ) -> Result<(), String> {
        for (name, value) in config {
            let mut child = Found::default();
            match live.get_mut(name) {
                Some(there) if same_scalar(there, value) => continue,
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

    /// Live items that share a key are not merged: the configuration's item takes the place of all of them.
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

/// Whether a value has no part.
fn empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// Where the items of a merged list come from.
enum Slot {
    /// A live item that the configuration does not name.
    Live(usize),
    /// An item of the configuration.
    Config(usize),
}

/// Which items of two lists belong together.
struct Plan {
    /// For each item of the configuration, the one live item of its key.
    live_of: Vec<Option<usize>>,
    /// For each live item, the item of the configuration that has its key. Empty where both lists are aligned.
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

    /// The places of the configuration's items, where all of them are there and in the live order already.
    fn in_place(&self) -> Option<impl Iterator<Item = usize>> {
        let known = self.live_of.iter().all(Option::is_some) && self.live_of.is_sorted();
        known.then(|| self.live_of.iter().flatten().copied())
    }

    /// Items keep the order of the live list, but those that the configuration names stand in its order.
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
                // Only the live list has it: it stays where it is.
                let Some(named) = self.config_of[l] else {
                    slots.push(Slot::Live(l));
                    l += 1;
                    continue;
                };
                // The configuration wants another shared item first: this one is taken when its turn comes.
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
