//! The example operator `database`.
