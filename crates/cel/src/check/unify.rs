//! Type unification: which types are assignable to each other, and the bindings of type parameters that follow.

use std::collections::BTreeMap;

use crate::check::functions::Overload;
use crate::types::{Opaque, Type};

/// The bindings of the type parameters so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings {
    bound: BTreeMap<u32, Type>,
    next: u32,
}

impl Bindings {
    /// Makes a new type parameter.
    pub(crate) fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Param(self.next - 1)
    }

    /// The argument and result types of an overload, with new type parameters for this one call.
    pub(crate) fn instance(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let first = self.next;
        self.next += overload.parameters;
        let renamed = |cel_type: &Type| rename(cel_type, first);
        (overload.args.iter().map(renamed).collect(), renamed(&overload.result))
    }

    /// Whether a value of the type `given` is assignable to `wanted`. If so, keeps the bindings that follow.
    pub(crate) fn assign(&mut self, wanted: &Type, given: &Type) -> bool {
        let mut tried = self.clone();
        let fits = tried.fits(wanted, given);
        if fits {
            *self = tried;
        }
        fits
    }

    /// Whether the types of all arguments of a call are assignable. If so, keeps the bindings that follow.
    pub(crate) fn assign_all(&mut self, first: &[Type], second: &[Type]) -> bool {
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

    fn fits(&mut self, first: &Type, second: &Type) -> bool {
        if let Type::Param(id) = second {
            let (valid, was_bound) = self.bind(first, *id);
            if valid || was_bound {
                return valid;
            }
        }
        if let Type::Param(id) = first {
            return self.bind(second, *id).0;
        }
        if first.is_dyn_or_error() || second.is_dyn_or_error() {
            return true;
        }
        match (first, second) {
            (Type::Null, other) | (other, Type::Null) => takes_null(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (a, b) => a == b,
        }
    }

    /// Binds a type parameter. Returns whether that is possible, and whether the parameter was bound before.
    fn bind(&mut self, cel_type: &Type, id: u32) -> (bool, bool) {
        if *cel_type == Type::Param(id) {
            return (true, true);
        }
        if let Some(known) = self.bound.get(&id).cloned() {
            if *cel_type == known {
                return (true, true);
            }
            if !self.fits(cel_type, &known) {
                return (false, true);
            }
            let general = cel_type.clone().most_general(known);
            if !self.occurs(id, &general) {
                self.bound.insert(id, general);
            }
            return (true, true);
        }
        let free = !self.occurs(id, cel_type);
        if free {
            self.bound.insert(id, cel_type.clone());
        }
        (free, false)
    }

    fn occurs(&self, id: u32, cel_type: &Type) -> bool {
        match cel_type {
            Type::Param(other) if *other == id => true,
            Type::Param(other) => self.bound.get(other).is_some_and(|bound| self.occurs(id, bound)),
            other => other.parameters().into_iter().any(|part| self.occurs(id, part)),
        }
    }

    /// Replaces the bound type parameters of a type.
    pub(crate) fn substituted(&self, cel_type: &Type) -> Type {
        self.put(cel_type, false)
    }

    /// Replaces the bound type parameters of a type, and the unbound ones by `dyn`.
    pub(crate) fn resolved(&self, cel_type: &Type) -> Type {
        self.put(cel_type, true)
    }

    fn put(&self, cel_type: &Type, open_to_dyn: bool) -> Type {
        match cel_type {
            Type::Param(id) => match self.bound.get(id) {
                Some(bound) => self.put(bound, open_to_dyn),
                None if open_to_dyn => Type::Dyn,
                None => cel_type.clone(),
            },
            Type::List(of) => Type::list(self.put(of, open_to_dyn)),
            Type::Optional(of) => Type::optional(self.put(of, open_to_dyn)),
            Type::Type(of) => Type::type_of(self.put(of, open_to_dyn)),
            Type::Map(of) => Type::map(self.put(&of.0, open_to_dyn), self.put(&of.1, open_to_dyn)),
            other => other.clone(),
        }
    }
}

fn rename(cel_type: &Type, first: u32) -> Type {
    match cel_type {
        Type::Param(id) => Type::Param(first + id),
        Type::List(of) => Type::list(rename(of, first)),
        Type::Optional(of) => Type::optional(rename(of, first)),
        Type::Type(of) => Type::type_of(rename(of, first)),
        Type::Map(of) => Type::map(rename(&of.0, first), rename(&of.1, first)),
        other => other.clone(),
    }
}

/// Whether null is assignable to the type: so it is for objects, times and the types of libraries.
fn takes_null(cel_type: &Type) -> bool {
    match cel_type {
        Type::Null | Type::Object(_) | Type::Duration | Type::Timestamp | Type::Optional(_) => true,
        Type::Opaque(opaque) => Opaque::ALL.contains(opaque),
        _ => false,
    }
}

impl Type {
    /// The more general of two assignable types.
    pub(crate) fn most_general(self, other: Type) -> Type {
        if self.is_as_general(&other) { self } else { other }
    }

    fn is_as_general(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Param(_), _) => true,
            (_, Type::Dyn | Type::Param(_)) => false,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.is_as_general(b),
            (Type::Map(a), Type::Map(b)) => a.0.is_as_general(&b.0) && a.1.is_as_general(&b.1),
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => a == b,
        }
    }
}
