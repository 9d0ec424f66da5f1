//! One object as a sequential machine: what each request does to it, and which answers fit.

use crate::history::{Answer, Call, Content, Object, Operation, Revision};

/// The state of one object between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    /// There is none; the last change was at this revision or, if that is not known, later.
    Absent { since: Revision },
    /// There is one.
    Present { at: At, content: Content },
}

/// The revision of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum At {
    Known(Revision),
    /// It was written by a request that got no answer: the revision is above this one.
    Above(Revision),
}

impl At {
    /// Whether this may be `revision`.
    fn may_be(self, revision: Revision) -> bool {
        match self {
            Self::Known(known) => known == revision,
            Self::Above(below) => revision > below,
        }
    }

    /// Whether this may be another than `expected`; always, where nothing was expected.
    fn may_differ(self, expected: Option<Revision>) -> bool {
        expected.is_none_or(|expected| self != Self::Known(expected))
    }

    /// The highest revision that is certainly not above this.
    fn floor(self) -> Revision {
        match self {
            Self::Known(revision) | Self::Above(revision) => revision,
        }
    }
}

impl State {
    pub(crate) const NEW: Self = Self::Absent { since: 0 };

    fn floor(self) -> Revision {
        match self {
            Self::Absent { since } => since,
            Self::Present { at, .. } => at.floor(),
        }
    }
}

/// Whether the request changes nothing: a read, or a write that was refused.
pub(crate) fn is_pure(operation: &Operation) -> bool {
    match operation.answer {
        Answer::Exists | Answer::Conflict | Answer::NotFound => true,
        Answer::Object(_) | Answer::Deleted { .. } | Answer::Lost => operation.call == Call::Get,
    }
}

/// The revision that an acknowledged write has got.
pub(crate) fn written_at(operation: &Operation) -> Option<Revision> {
    match (&operation.call, &operation.answer) {
        (Call::Get, _) => None,
        (_, Answer::Object(object)) => Some(object.revision),
        (_, Answer::Deleted { revision, .. }) => *revision,
        _ => None,
    }
}

/// What a pure request leaves behind, if its answer fits the state. A read tells a revision that was not known before,
/// and changes nothing else.
pub(crate) fn observe(state: State, operation: &Operation) -> Option<State> {
    let fits = match (&operation.call, &operation.answer, state) {
        (Call::Get, Answer::Lost, _) => true,
        (Call::Get, Answer::Object(object), State::Present { at, content }) => {
            let same = at.may_be(object.revision) && content == object.content;
            return same.then_some(State::Present { at: At::Known(object.revision), content });
        }
        (Call::Create { .. }, Answer::Exists, State::Present { .. }) => true,
        (Call::Update { expected, .. }, Answer::Conflict, State::Present { at, .. }) => {
            at.may_differ(Some(*expected))
        }
        (
            Call::Patch { expected, .. } | Call::Delete { expected },
            Answer::Conflict,
            State::Present { at, .. },
        ) => at.may_differ(*expected),
        (
            Call::Get | Call::Update { .. } | Call::Patch { .. } | Call::Delete { .. },
            Answer::NotFound,
            State::Absent { .. },
        ) => true,
        _ => false,
    };
    fits.then_some(state)
}

/// What a write leaves behind, if it applies to the state and its answer fits.
pub(crate) fn write(state: State, operation: &Operation) -> Option<State> {
    let next = apply(state, &operation.call)?;
    match (&operation.answer, next) {
        (Answer::Lost, next) => Some(next),
        (Answer::Object(Object { revision, content, .. }), State::Present { content: made, .. }) => {
            let fits = *content == made && *revision > state.floor();
            fits.then_some(State::Present { at: At::Known(*revision), content: made })
        }
        (Answer::Deleted { revision, .. }, State::Absent { since }) => match *revision {
            None => Some(next),
            Some(revision) => (revision > since).then_some(State::Absent { since: revision }),
        },
        _ => None,
    }
}

/// What a write does, where it is not refused; its revision is left open.
fn apply(state: State, call: &Call) -> Option<State> {
    let at = At::Above(state.floor());
    match (*call, state) {
        (Call::Create { set }, State::Absent { .. }) => {
            Some(State::Present { at, content: Content { set, merged: None } })
        }
        (Call::Update { expected, content }, State::Present { at: before, .. }) => {
            before.may_be(expected).then_some(State::Present { at: At::Above(expected), content })
        }
        (Call::Patch { merged, expected }, State::Present { at: before, content }) => {
            let allowed = expected.is_none_or(|expected| before.may_be(expected));
            let content = Content { merged: Some(merged), ..content };
            allowed.then_some(State::Present { at: At::Above(expected.unwrap_or(before.floor())), content })
        }
        (Call::Delete { expected }, State::Present { at: before, .. }) => {
            let allowed = expected.is_none_or(|expected| before.may_be(expected));
            allowed.then_some(State::Absent { since: expected.unwrap_or(before.floor()) })
        }
        _ => None,
    }
}
