//! Which types go together, and what that says of the types that were open.

use std::collections::BTreeMap;

use super::functions::Overload;
use super::kind::{Kind, Opaque};

/// What is known of the type parameters so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    bound: BTreeMap<u32, Kind>,
    next: u32,
}

impl Bindings {
    /// A type that is not known yet.
    pub(super) fn fresh(&mut self) -> Kind {
        self.next += 1;
        Kind::Param(self.next - 1)
    }

    /// The types of an overload with parameters of its own.
    pub(super) fn instance(&mut self, overload: &Overload) -> (Vec<Kind>, Kind) {
        let first = self.next;
        self.next += overload.parameters;
        let renamed = |kind: &Kind| rename(kind, first);
        (overload.args.iter().map(renamed).collect(), renamed(&overload.result))
    }

    /// Whether values of the second type can stand where the first is wanted; keeps what follows from it.
    pub(super) fn assign(&mut self, wanted: &Kind, given: &Kind) -> bool {
        let mut tried = self.clone();
        let fits = tried.fits(wanted, given);
        if fits {
            *self = tried;
        }
        fits
    }

    /// The same for all arguments of a call.
    pub(super) fn assign_all(&mut self, first: &[Kind], second: &[Kind]) -> bool {
        if first.len() != second.len() {
            return false;
        }
        let mut tried = self.clone();
        let fit = first.iter().zip(second).all(|(first, second)| tried.fits(first, second));
        if fit {
            *self = tried;
        }
        fit
    }

    fn fits(&mut self, first: &Kind, second: &Kind) -> bool {
        if let Kind::Param(id) = second {
            let (valid, was_bound) = self.bind(first, *id);
            if valid || was_bound {
                return valid;
            }
        }
        if let Kind::Param(id) = first {
            return self.bind(second, *id).0;
        }
        if first.is_dyn_or_error() || second.is_dyn_or_error() {
            return true;
        }
        match (first, second) {
            (Kind::Null, other) | (other, Kind::Null) => takes_null(other),
            (Kind::Type(_), Kind::Type(_)) => true,
            (Kind::Object(a), Kind::Object(b)) => a.name == b.name,
            (Kind::List(a), Kind::List(b)) | (Kind::Optional(a), Kind::Optional(b)) => self.fits(a, b),
            (Kind::Map(a), Kind::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (a, b) => a == b,
        }
    }

    /// Binds a parameter; says whether that is possible, and whether it was bound before.
    fn bind(&mut self, kind: &Kind, id: u32) -> (bool, bool) {
        if *kind == Kind::Param(id) {
            return (true, true);
        }
        if let Some(known) = self.bound.get(&id).cloned() {
            if *kind == known {
                return (true, true);
            }
            if !self.fits(kind, &known) {
                return (false, true);
            }
            let general = kind.clone().most_general(known);
            if !self.occurs(id, &general) {
                self.bound.insert(id, general);
            }
            return (true, true);
        }
        let free = !self.occurs(id, kind);
        if free {
            self.bound.insert(id, kind.clone());
        }
        (free, false)
    }

    fn occurs(&self, id: u32, kind: &Kind) -> bool {
        match kind {
            Kind::Param(other) if *other == id => true,
            Kind::Param(other) => self.bound.get(other).is_some_and(|bound| self.occurs(id, bound)),
            other => other.parameters().into_iter().any(|part| self.occurs(id, part)),
        }
    }

    /// The type with everything put in that is known.
    pub(super) fn substituted(&self, kind: &Kind) -> Kind {
        self.put(kind, false)
    }

    /// The same, with `dyn` for what is still open.
    pub(super) fn resolved(&self, kind: &Kind) -> Kind {
        self.put(kind, true)
    }

    fn put(&self, kind: &Kind, open_to_dyn: bool) -> Kind {
        match kind {
            Kind::Param(id) => match self.bound.get(id) {
                Some(bound) => self.put(bound, open_to_dyn),
                None if open_to_dyn => Kind::Dyn,
                None => kind.clone(),
            },
            Kind::List(of) => Kind::list(self.put(of, open_to_dyn)),
            Kind::Optional(of) => Kind::optional(self.put(of, open_to_dyn)),
            Kind::Type(of) => Kind::type_of(self.put(of, open_to_dyn)),
            Kind::Map(of) => Kind::map(self.put(&of.0, open_to_dyn), self.put(&of.1, open_to_dyn)),
            other => other.clone(),
        }
    }
}

fn rename(kind: &Kind, first: u32) -> Kind {
    match kind {
        Kind::Param(id) => Kind::Param(first + id),
        Kind::List(of) => Kind::list(rename(of, first)),
        Kind::Optional(of) => Kind::optional(rename(of, first)),
        Kind::Type(of) => Kind::type_of(rename(of, first)),
        Kind::Map(of) => Kind::map(rename(&of.0, first), rename(&of.1, first)),
        other => other.clone(),
    }
}

/// Objects, times and the types of libraries can be compared with null.
fn takes_null(kind: &Kind) -> bool {
    match kind {
        Kind::Null | Kind::Object(_) | Kind::Duration | Kind::Timestamp | Kind::Optional(_) => true,
        Kind::Opaque(opaque) => Opaque::ALL.contains(opaque),
        _ => false,
    }
}

impl Kind {
    /// The one of two types that go together that says less.
    pub(super) fn most_general(self, other: Kind) -> Kind {
        if self.is_as_general(&other) { self } else { other }
    }

    fn is_as_general(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Dyn | Kind::Param(_), _) => true,
            (_, Kind::Dyn | Kind::Param(_)) => false,
            (Kind::List(a), Kind::List(b)) | (Kind::Optional(a), Kind::Optional(b)) => a.is_as_general(b),
            (Kind::Map(a), Kind::Map(b)) => a.0.is_as_general(&b.0) && a.1.is_as_general(&b.1),
            (Kind::Type(_), Kind::Type(_)) => true,
            (a, b) => a == b,
        }
    }
}
