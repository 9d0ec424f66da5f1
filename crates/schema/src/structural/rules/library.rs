//! The functions of the language and of Kubernetes' libraries, by what they are about.

pub(super) mod convert;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod named;
pub(super) mod net;
pub(super) mod regex;
pub(super) mod semver;
pub(super) mod strings;
pub(super) mod time;
pub(super) mod url;
