//! Plans in which something happens to objects: a foreign client deletes or changes a child, pods crash or are evicted,
//! a node is lost.

use std::collections::BTreeSet;

use super::Generated;
use crate::learn::{Child, Learned};
use crate::plan::{Mishap, Point, Strike};

pub(super) fn mishaps(learned: &Learned, plans: &mut Generated) {
    for child in &learned.children {
        for rest in &child.rests {
            let strike = |mishap| Strike::World { mishap, path: child.path.clone(), at: Point::Rest(*rest) };
            plans.push(0, strike(Mishap::Delete));
            if child.is_applied {
                plans.push(0, strike(Mishap::Change));
            }
        }
        while_reconciling(child, learned, plans);
    }
    let mut nodes = BTreeSet::new();
    for pod in &learned.pods {
        let strike =
            |mishap, path: &str| Strike::World { mishap, path: path.to_owned(), at: Point::Rest(pod.rest) };
        plans.push(0, strike(Mishap::CrashPod, &pod.path));
        plans.push(0, strike(Mishap::Evict, &pod.path));
        plans.push(1, strike(Mishap::UnreadyPod, &pod.path));
        if nodes.insert((pod.rest, &pod.node)) {
            plans.push(1, strike(Mishap::LoseNode, &format!("/api/v1/nodes/{}", pod.node)));
        }
    }
}

/// Makes plans in which a foreign client deletes a child just before each write that its operator makes while the child
/// exists.
fn while_reconciling(child: &Child, learned: &Learned, plans: &mut Generated) {
    let ours = learned.requests.iter().filter(|asked| asked.operator == child.operator && asked.has_effect);
    for asked in ours {
        let lives = child.lives.iter().any(|(made, gone)| *made <= asked.revision && asked.revision < *gone);
        // A child that is gone at the next rest is being removed anyway, and nobody makes it again.
        if !lives || !child.rests.contains(&learned.rest_after(asked.revision)) {
            continue;
        }
        let at = Point::Request { operator: asked.operator.clone(), number: asked.number };
        plans.push(1, Strike::World { mishap: Mishap::Delete, path: child.path.clone(), at });
    }
}
