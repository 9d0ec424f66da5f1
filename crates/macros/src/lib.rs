//! `#[evenkeel::test]`.
