//! Plays a scenario once, on a cluster of its own, under a plan.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Exchange, Moment, testing};
use evenkeel_runtime::LeaderElection;
use futures::FutureExt as _;

use crate::director::{PlanDirector, Played};
use crate::plan::Plan;
use crate::quiet::quietly;
use crate::script::Script;

/// How much virtual time a cluster may take to come to rest. A disturbed operator may wait for several timeouts and
/// retries in turn. The store keeps ten minutes of history; half of that leaves room for what came before.
const SETTLE_LIMIT: Duration = Duration::from_secs(300);
/// The namespace of the leases of operators that have no election of their own.
const LEASES: &str = "kube-system";
/// The operator name of the built-in controllers.
const CONTROLLERS: &str = "kube-controller-manager";

/// The record of one run.
pub(crate) struct Run {
    pub(crate) operators: Vec<String>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) timeline: Vec<String>,
    pub(crate) played: Played,
    /// The error or panic of the scenario, if it failed.
    pub(crate) failure: Option<String>,
    /// Whether the scenario failed while a disturbance was active, when its own assertions need not hold.
    pub(crate) failed_disturbed: bool,
    /// The panics of reconciles.
    pub(crate) panics: Vec<String>,
    /// The causes of reconciles, in words.
    pub(crate) causes: Vec<String>,
}

/// The options of a run other than its plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setting<'a> {
    /// The operators that have a leader election of their own.
    pub(crate) elects: Option<&'a std::collections::BTreeSet<String>>,
    /// Whether revisions and times are shifted at each rest.
    pub(crate) shifts: bool,
}

/// Plays the scenario under a plan. The result is a function of scenario, seed and plan.
pub(crate) fn play(script: &Script, seed: u64, plan: &Plan, setting: Setting<'_>) -> Run {
    let options = script.options.clone().seed(seed).settle_limit(SETTLE_LIMIT);
    let played = quietly(|| {
        testing::run(options, |cluster| async move {
            Ok::<_, std::convert::Infallible>(on(script, cluster, plan, setting).await)
        })
    });
    match played {
        Ok(run) => run,
        Err(never) => match never {},
    }
}

async fn on(script: &Script, cluster: Cluster, plan: &Plan, setting: Setting<'_>) -> Run {
    for operator in plan.replicated() {
        replicate(&cluster, operator, setting.elects.is_some_and(|elects| elects.contains(operator)));
    }
    let director = PlanDirector::new(cluster.clone(), plan.clone(), setting.shifts);
    cluster.direct(Some(director.clone()));
    let scenario = AssertUnwindSafe((script.play)(cluster.clone())).catch_unwind();
    let failure = tokio::select! {
        biased;
        () = director.broken_off() => None,
        played = scenario => played.unwrap_or_else(|panic| Some(panic_text(&*panic))),
    };
    let failed_disturbed = failure.is_some() && director.is_disturbed();
    if failure.is_none() {
        director.finish();
        // The director has recorded the failure to settle.
        let _ = cluster.try_settled().await;
    }
    cluster.direct(None);
    let moments = cluster.moments();
    let controllers = script.explores_controllers.then(|| CONTROLLERS.to_owned());
    Run {
        operators: cluster.operators().into_iter().chain(controllers).collect(),
        exchanges: cluster.requests(),
        timeline: moments.iter().filter(|moment| moment.matters()).map(ToString::to_string).collect(),
        played: director.take(),
        panics: moments.iter().filter_map(panic_of).collect(),
        causes: moments.iter().filter_map(causes_of).collect(),
        failure,
        failed_disturbed,
    }
}

/// Runs an operator as two replicas that compete for a lease.
fn replicate(cluster: &Cluster, operator: &str, has_election: bool) {
    let lease = operator.replace(|it: char| !it.is_ascii_alphanumeric(), "-").to_lowercase();
    cluster.replicate(operator, move |manager| match has_election {
        true => manager,
        false => manager.leader_election(LeaderElection::new(LEASES, &lease)),
    });
}

/// Returns the message of a reconcile that panicked.
fn panic_of(moment: &Moment) -> Option<String> {
    let Moment::Reconcile(reconcile) = moment else { return None };
    let text = reconcile.to_string();
    text.contains("the reconcile panicked").then_some(text)
}

/// Returns why an operator reconciled, in words.
fn causes_of(moment: &Moment) -> Option<String> {
    let Moment::Reconcile(reconcile) = moment else { return None };
    Some(reconcile.causes.clone())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
