//! The example operator `my-resource`.
