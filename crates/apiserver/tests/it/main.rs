//! Tests that send requests to an API server in the same process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

mod access;
mod admission;
mod api;
mod audit;
mod consequences;
mod conversion;
mod conversion_races;
mod conversion_recorded;
mod custom;
mod damaged;
mod deadlines;
mod deep_input;
mod deletion;
mod departures;
mod depth;
mod description;
mod extremes;
mod health;
mod kind_names;
mod layers;
mod matrix;
mod panics;
mod policies;
mod protobuf;
mod races;
mod reads;
mod reports;
mod requests;
mod restarts;
mod size;
mod tables;
mod tokens;
mod watches;
mod writes;
