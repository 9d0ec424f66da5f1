//! One object as a sequential machine: what each request does to the object, and which answers fit.

use crate::history::{Answer, Call, Content, Object, Operation, Revision};

/// The state of one object between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RegisterState {
    /// The object does not exist. Its last change has this revision, or a later one that is not known.
    Absent { since: Revision },
    /// The object exists.
    Present { at: At, content: Content },
}

/// The revision of an object, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum At {
    Known(Revision),
    /// A request without an answer wrote the object, so that the revision is above this one.
    Above(Revision),
}

impl At {
    /// Whether the revision can be `revision`.
    fn may_be(self, revision: Revision) -> bool {
        match self {
            Self::Known(known) => known == revision,
            Self::Above(below) => revision > below,
        }
    }

    /// Whether the revision can differ from `expected`; always true if nothing was expected.
    fn may_differ(self, expected: Option<Revision>) -> bool {
        expected.is_none_or(|expected| self != Self::Known(expected))
    }

    /// Returns the highest revision that is certainly not above this one.
    fn floor(self) -> Revision {
        match self {
            Self::Known(revision) | Self::Above(revision) => revision,
        }
    }
}

impl RegisterState {
    pub(crate) const NEW: Self = Self::Absent { since: 0 };

    fn floor(self) -> Revision {
        match self {
            Self::Absent { since } => since,
            Self::Present { at, .. } => at.floor(),
        }
    }
}

/// Whether the request changes nothing: a read, or a write that failed with an error.
pub(crate) fn is_pure(operation: &Operation) -> bool {
    match operation.answer {
        Answer::Exists | Answer::Conflict | Answer::NotFound => true,
        Answer::Object(_) | Answer::Deleted { .. } | Answer::Lost => operation.call == Call::Get,
    }
}

/// Returns the revision of an acknowledged write.
pub(crate) fn written_at(operation: &Operation) -> Option<Revision> {
    match (&operation.call, &operation.answer) {
        (Call::Get, _) => None,
        (_, Answer::Object(object)) => Some(object.revision),
        (_, Answer::Deleted { revision, .. }) => *revision,
        _ => None,
    }
}

/// Returns the state after a request that changes nothing; `None` if its answer does not fit. A read can make a revision
/// known.
pub(crate) fn observe(state: RegisterState, operation: &Operation) -> Option<RegisterState> {
    let fits = match (&operation.call, &operation.answer, state) {
        (Call::Get, Answer::Lost, _) => true,
        (Call::Get, Answer::Object(object), RegisterState::Present { at, content }) => {
            let same = at.may_be(object.revision) && content == object.content;
            return same.then_some(RegisterState::Present { at: At::Known(object.revision), content });
        }
        (Call::Create { .. }, Answer::Exists, RegisterState::Present { .. }) => true,
        (Call::Update { expected, .. }, Answer::Conflict, RegisterState::Present { at, .. }) => {
            at.may_differ(Some(*expected))
        }
        (
            Call::Patch { expected, .. } | Call::Delete { expected },
            Answer::Conflict,
            RegisterState::Present { at, .. },
        ) => at.may_differ(*expected),
        (
            Call::Get | Call::Update { .. } | Call::Patch { .. } | Call::Delete { .. },
            Answer::NotFound,
            RegisterState::Absent { .. },
        ) => true,
        _ => false,
    };
    fits.then_some(state)
}

/// Returns the state after a write; `None` if the write does not apply or its answer does not fit.
pub(crate) fn write(state: RegisterState, operation: &Operation) -> Option<RegisterState> {
    let next = apply(state, &operation.call)?;
    match (&operation.answer, next) {
        (Answer::Lost, next) => Some(next),
        (Answer::Object(Object { revision, content, .. }), RegisterState::Present { content: made, .. }) => {
            let fits = *content == made && *revision > state.floor();
            fits.then_some(RegisterState::Present { at: At::Known(*revision), content: made })
        }
        (Answer::Deleted { revision, .. }, RegisterState::Absent { since }) => match *revision {
            None => Some(next),
            Some(revision) => (revision > since).then_some(RegisterState::Absent { since: revision }),
        },
        _ => None,
    }
}

/// Returns the state after a write that succeeds; its revision is not known yet.
fn apply(state: RegisterState, call: &Call) -> Option<RegisterState> {
    let at = At::Above(state.floor());
    match (*call, state) {
        (Call::Create { set }, RegisterState::Absent { .. }) => {
            Some(RegisterState::Present { at, content: Content { set, merged: None } })
        }
        (Call::Update { expected, content }, RegisterState::Present { at: before, .. }) => {
            before.may_be(expected).then_some(RegisterState::Present { at: At::Above(expected), content })
        }
        (Call::Patch { merged, expected }, RegisterState::Present { at: before, content }) => {
            let allowed = expected.is_none_or(|expected| before.may_be(expected));
            let content = Content { merged: Some(merged), ..content };
            allowed.then_some(RegisterState::Present {
                at: At::Above(expected.unwrap_or(before.floor())),
                content,
            })
        }
        (Call::Delete { expected }, RegisterState::Present { at: before, .. }) => {
            let allowed = expected.is_none_or(|expected| before.may_be(expected));
            allowed.then_some(RegisterState::Absent { since: expected.unwrap_or(before.floor()) })
        }
        _ => None,
    }
}
