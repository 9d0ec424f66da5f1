//! StatefulSets: pods with an identity, in order.

pub(crate) mod identity;
pub(crate) mod plan;
