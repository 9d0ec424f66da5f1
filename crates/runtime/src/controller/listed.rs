//! The kinds of a controller that the list of its context's type names; see [`kinds!`](crate::kinds!).

use super::wiring::{Wire, wire_read};
use super::{Controller, Owned, declaration};
use crate::Object;
use crate::declaration::{Declaration, Purpose};
use crate::kinds::{Declare, Kinds};
use crate::source::Source;

/// A kind of the list, and how it is watched unless a method of the controller declared it.
pub(super) struct Listed<K: Object> {
    declaration: Declaration,
    /// `None` for a kind that a method of the controller must declare: the list does not know its trigger.
    wire: Option<Wire<K>>,
}

impl<K: Object> Listed<K> {
    fn of<C: Object>(source: &Source<C>, purpose: Purpose, wire: Option<Wire<K>>) -> Self {
        Self { declaration: declaration(source, purpose), wire }
    }

    /// What the list adds to the declarations of the controller's methods: nothing for a kind that these declared with the
    /// same purpose, or that is only read and in one of their caches, or that the list knows no trigger for.
    pub(super) fn adds_to(&self, declared: &[Declaration]) -> Option<&Declaration> {
        (self.wire.is_some() && !self.is_in(declared)).then_some(&self.declaration)
    }

    fn is_in(&self, declared: &[Declaration]) -> bool {
        declared.iter().any(|declared| {
            let same = declared.resource == self.declaration.resource
                && declared.type_id == self.declaration.type_id;
            same && (declared.purpose == Purpose::Owned || self.declaration.purpose == Purpose::Read)
        })
    }
}

/// A kind is in the list with `watches`, and no method of the controller says which keys to reconcile for it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kinds of controller {controller:?} have `watches {kind}`, but nothing says what to reconcile when one changes: add \
     .watches::<{kind}>(trigger) to the controller, or write `reads {kind}` if it does not react to them"
)]
pub(super) struct NoTrigger {
    controller: String,
    kind: String,
}

impl<K: Object, S> Controller<K, S> {
    /// Takes the kinds of a list.
    pub(super) fn listing<D: Kinds<K>>(mut self) -> Self {
        D::declare(&mut List(&mut self.listed));
        self
    }

    /// Watches the kinds of the list that no method of the controller declared.
    pub(super) fn watching_listed(mut self) -> Result<Self, NoTrigger> {
        for listed in std::mem::take(&mut self.listed) {
            match (listed.is_in(&self.declared), listed.wire) {
                (true, _) => {}
                (false, Some(wire)) => self.watches.push(wire),
                (false, None) => {
                    let kind = listed.declaration.resource.kind;
                    return Err(NoTrigger { controller: self.name.to_string(), kind });
                }
            }
        }
        Ok(self)
    }
}

/// Collects the kinds of a list.
struct List<'a, K: Object>(&'a mut Vec<Listed<K>>);

impl<K: Object> Declare for List<'_, K> {
    fn owns<C: Object<DynamicType: Default>>(&mut self) {
        let source = Source::<C>::new();
        let wire = Owned::from(source.clone()).wire();
        self.0.push(Listed::of(&source, Purpose::Owned, Some(wire)));
    }

    fn watches<C: Object<DynamicType: Default>>(&mut self) {
        self.0.push(Listed::of(&Source::<C>::new(), Purpose::Read, None));
    }

    fn reads<C: Object<DynamicType: Default>>(&mut self) {
        let source = Source::<C>::new();
        let wire = wire_read(source.clone());
        self.0.push(Listed::of(&source, Purpose::Read, Some(wire)));
    }
}
