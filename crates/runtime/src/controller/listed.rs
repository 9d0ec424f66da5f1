//! The kinds of a controller that come from the list in its context's type; see [`kinds!`](crate::kinds!).

use super::wiring::{Wire, wire_read};
use super::{Controller, Owned, declaration};
use crate::Object;
use crate::declaration::{Declaration, Purpose};
use crate::kinds::{Declare, Kinds};
use crate::source::Source;

/// A kind in the list, and how it is watched if no method of the controller declares it.
pub(super) struct Listed<K: Object> {
    declaration: Declaration,
    /// Starts the watch. `None` for a `watches` entry: the list does not know its trigger, so a method of the
    /// controller must declare it.
    wire: Option<Wire<K>>,
}

impl<K: Object> Listed<K> {
    fn of<C: Object>(source: &Source<C>, purpose: Purpose, wire: Option<Wire<K>>) -> Self {
        Self { declaration: declaration(source, purpose), wire }
    }

    /// Returns the declaration that the list adds to those of the controller's methods. `None` if a method already
    /// declared the kind with this purpose, if the kind is only read and a declared cache holds it, or if the list does
    /// not know its trigger.
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

/// The list says `watches` for a kind, but no method of the controller says which keys to reconcile when it changes.
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
    /// Adds the kinds of a list to the controller.
    pub(super) fn listing<D: Kinds<K>>(mut self) -> Self {
        D::declare(&mut List(&mut self.listed));
        self
    }

    /// Watches the kinds of the list that no method of the controller has declared.
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
