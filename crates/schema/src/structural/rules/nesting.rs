//! How deep the values of an expression can nest.
//!
//! A chain of loops such as `[1].map(a, [[a]]).map(b, [[b]])` makes values, and types of values, that are much deeper than
//! the expression itself. Comparing, printing and freeing them recurses, so that their depth is bounded before anything
//! is computed; that of a policy's variables, which see each other's values, is measured when they have been computed.

use super::equality::Fuel;
use super::syntax::{Id, Node, Tree};
use super::value::{Fault, List, Map, Outcome, Value};
use crate::depth::DEPTH_MAX;

/// How many levels of lists, maps and optionals an expression may put around what it is given. Checking the types of a level
/// and computing it takes some kilobytes of stack in the debug profile; threads have 2 MiB.
const LEVELS_MAX: usize = 100;
/// How many levels a variable may have: those of an object, and those that an expression puts around it.
const VARIABLE_LEVELS_MAX: usize = DEPTH_MAX + LEVELS_MAX;
/// How many parts of a variable are measured. An object of the largest size has as many; a value that holds another one
/// twice, which holds a third one twice, has more than can be counted.
const PARTS_MAX: u64 = 1_000_000;
/// How many levels a function can make of a text: the query of a URL is a map of lists.
const FRESH_LEVELS: usize = 2;

/// Whether no value of an expression can have more than [`LEVELS_MAX`] levels around those of its inputs.
///
/// The estimate is from above: the item of a loop is taken to be as deep as all that is looped over.
pub(super) fn is_shallow(tree: &Tree) -> bool {
    let mut levels: Vec<usize> = Vec::with_capacity(tree.nodes.len());
    // The parts of a node come before it.
    for node in &tree.nodes {
        let of = |id: &Id| levels.get(*id).copied().unwrap_or_default();
        let most = |ids: &[Id]| ids.iter().map(of).max().unwrap_or_default();
        let own = match node {
            Node::Literal(_) | Node::Ident(_) => 0,
            Node::Select { operand, .. } => of(operand),
            Node::Call { function, target, args } => {
                let inner = most(args).max(target.as_ref().map_or(0, of));
                // Only optionals hold what they are made of; other functions give parts of it, or something new.
                let wraps = function.ends_with("of") || function.ends_with("ofNonZeroValue");
                (inner + usize::from(wraps)).max(FRESH_LEVELS)
            }
            Node::List { items, .. } => 1 + most(items),
            Node::Map { entries } => {
                1 + entries.iter().map(|entry| of(&entry.key).max(of(&entry.value))).max().unwrap_or_default()
            }
            Node::Struct { fields, .. } => {
                1 + fields.iter().map(|field| of(&field.value)).max().unwrap_or_default()
            }
            Node::Fold(fold) => {
                let parts = [fold.range, fold.init, fold.condition, fold.step, fold.result];
                parts.iter().map(of).sum()
            }
        };
        levels.push(own);
    }
    levels.iter().all(|levels| *levels <= LEVELS_MAX)
}

/// The value of a variable, unless it has more than [`VARIABLE_LEVELS_MAX`] levels or too many parts to be measured.
pub(super) fn shallow(value: Value<'_>) -> Result<Value<'_>, String> {
    match fits(&value, VARIABLE_LEVELS_MAX, &Fuel::of(PARTS_MAX)) {
        Ok(()) => Ok(value),
        Err(Fault::Limit) => Err("value is too large".to_owned()),
        Err(Fault::Error(error)) => Err(error),
    }
}

fn fits(value: &Value<'_>, levels: usize, fuel: &Fuel) -> Outcome<()> {
    fuel.spend(1)?;
    let below = || levels.checked_sub(1).ok_or_else(|| Fault::new("value is nested too deep"));
    match value {
        Value::List(List::Owned(items)) => {
            let below = below()?;
            items.iter().try_for_each(|item| fits(item, below, fuel))
        }
        Value::Map(Map::Owned(entries)) => {
            let below = below()?;
            entries.values().try_for_each(|(_, value)| fits(value, below, fuel))
        }
        Value::Optional(Some(value)) => fits(value, below()?, fuel),
        _ => Ok(()),
    }
}
