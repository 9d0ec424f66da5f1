//! Bounds how deep the values that an expression makes can nest.
//!
//! A chain of loops such as `[1].map(a, [[a]]).map(b, [[b]])` makes values, and types of values, that are much deeper than
//! the expression itself. Comparing, printing and dropping them recurses, so their depth is bounded before anything is
//! computed. The variables of a policy see each other's values; `value::nesting` measures them when they have been computed.

use crate::syntax::{Id, Node, Tree};

/// How many levels of lists, maps and optionals an expression may put around its inputs. In the debug profile, checking and
/// evaluating a level takes some kilobytes of stack; threads have 2 MiB.
pub(crate) const LEVELS_MAX: usize = 100;
/// How many levels a function can make from a string: the query of a URL is a map of lists.
const FRESH_LEVELS: usize = 2;

/// Whether every value that an expression makes is nested at most [`LEVELS_MAX`] levels deeper than its inputs.
///
/// The estimate is an upper bound: the item of a loop counts as being as deep as the list or map that the loop iterates
/// over.
pub(crate) fn is_shallow(tree: &Tree) -> bool {
    let mut levels: Vec<usize> = Vec::with_capacity(tree.nodes.len());
    // The vector holds the parts of a node before the node.
    for node in &tree.nodes {
        let of = |id: &Id| levels.get(*id).copied().unwrap_or_default();
        let most = |ids: &[Id]| ids.iter().map(of).max().unwrap_or_default();
        let own = match node {
            Node::Literal(_) | Node::Ident(_) => 0,
            Node::Select { operand, .. } => of(operand),
            Node::Call { function, target, args } => {
                let inner = most(args).max(target.as_ref().map_or(0, of));
                // Only `optional.of` and `optional.ofNonZeroValue` wrap their argument; other functions return parts of it, or new values.
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
