//! The controllers against an embedded cluster, in process and in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect should fail right there")]

mod certificates;
mod cronjobs;
mod events;
mod field_effects;
mod fields;
mod garbage_collector;
mod namespaces;
mod node_loss;
mod nodes;
mod pod_fields;
mod quotas;
mod recipes;
mod rollout;
mod scheduling;
mod statefulset;
mod workloads;
mod world;
