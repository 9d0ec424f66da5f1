//! The controllers against an embedded cluster, in process and in virtual time.

mod garbage;
mod namespaces;
mod rollout;
mod scheduling;
mod statefulset;
mod workloads;
mod world;
