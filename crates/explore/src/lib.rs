//! Exploration: finds the failures of an operator that its author did not think of.
//!
//! A user writes one scenario: the steps of a resource's life, and nothing about faults. Exploration plays it
//! undisturbed, learns what the operator requested and wrote, makes plans of what a real Kubernetes cluster may do to
//! the operator, plays the scenario once for each plan, and judges every run by oracles that the user need not write.
//!
//! ```text
//! scenario ─▶ learn ─▶ plan ─▶ schedule ─▶ run ─▶ oracle ─▶ shrink ─▶ explain ─▶ report
//!                        ▲                  ▲
//!                        └───── token ──────┘   EVENKEEL_PLAN=… plays one plan again
//! ```
//! A run is a function of the scenario, the seed and the plan.
//!
//! *Invariant:* every plan is legal: a real Kubernetes cluster may do the same to an operator. A false alarm costs more
//! than a miss.

mod compare;
mod coverage;
mod director;
mod explain;
mod generate;
mod history;
mod learn;
mod oracle;
mod plan;
mod progress;
mod quiet;
mod record;
mod report;
mod run;
mod scenario;
mod schedule;
mod script;
mod settings;
mod shrink;
mod state;
mod token;
mod values;
mod view;

pub use compare::Difference;
pub use coverage::Coverage;
pub use oracle::{Finding, Oracle};
pub use plan::{Back, Class, Late, Mishap, Plan, Point, Stop, Strike};
pub use report::Report;
pub use scenario::{Exploration, explore};
pub use settings::Budget;
pub use token::TokenError;
pub use view::View;
