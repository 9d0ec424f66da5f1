//! Plays a scenario once, on a cluster of its own, under a plan.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Exchange, Moment, Outcome, testing};
use evenkeel_runtime::LeaderElection;
use futures::FutureExt as _;

use crate::director::{PlanDirector, Played, SOMEBODY};
use crate::plan::Plan;
use crate::quiet::quietly;
use crate::script::Script;

/// How much virtual time a cluster may take to come to rest. A disturbed operator may wait for several timeouts and
/// retries in turn. The store keeps ten minutes of history; half of that leaves room for what came before.
const SETTLE_LIMIT: Duration = Duration::from_secs(300);
/// How often nodes renew their leases, which expire after 40 seconds. Renewals are most of what costs time when much virtual
/// time passes.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// The namespace of the leases of operators that have no election of their own.
const LEASES: &str = "kube-system";
/// The operator name of the built-in controllers.
const CONTROLLERS: &str = "kube-controller-manager";
/// The clients that are neither an operator nor the scenario: the built-in controllers, the foreign client of plans, the
/// tool that registers the webhooks of operators, and the API server, which calls them.
const OTHERS: [&str; 4] = [CONTROLLERS, SOMEBODY, "kubectl", "kube-apiserver"];

/// The kind of what an admission webhook is asked.
const REVIEW: &[u8] = b"AdmissionReview";

/// The record of one run.
pub(crate) struct Run {
    pub(crate) operators: Vec<String>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) timeline: Vec<String>,
    pub(crate) played: Played,
    /// The error or panic of the scenario, if it failed.
    pub(crate) failure: Option<String>,
    /// Whether the scenario failed while a disturbance was active or the cluster had not come to rest after one, when its
    /// own assertions need not hold.
    pub(crate) failed_disturbed: bool,
    /// The panics of reconciles.
    pub(crate) panics: Vec<String>,
    /// The causes of reconciles, in words.
    pub(crate) causes: Vec<String>,
    /// Whether the API server got no answer from an admission webhook. A write that was accepted or refused without it may have
    /// another effect than in the undisturbed run.
    pub(crate) missed_webhook: bool,
}

impl Run {
    /// Returns whether a client is an operator under test, or a replica of one.
    pub(crate) fn is_operator(&self, by: &str) -> bool {
        self.operators.iter().any(|operator| operator == by)
    }

    /// Returns whether an operator or the scenario reads Events.
    pub(crate) fn reads_events(&self) -> bool {
        let mut reads = self.exchanges.iter().filter(|it| it.method == http::Method::GET);
        reads.any(|exchange| {
            let is_about_events = exchange.target().is_some_and(|it| it.resource == "events");
            is_about_events && (self.is_operator(&exchange.by) || self.is_scenario(&exchange.by))
        })
    }

    /// Returns whether a client is the scenario, as any of the users that it acts as.
    pub(crate) fn is_scenario(&self, by: &str) -> bool {
        !self.is_operator(by) && !OTHERS.contains(&by)
    }
}

/// The options of a run other than its plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setting<'a> {
    /// The operators that have a leader election of their own.
    pub(crate) elects: Option<&'a std::collections::BTreeSet<String>>,
    /// Whether the built-in controllers, the scheduler and the nodes send no Events.
    pub(crate) without_events: bool,
    /// How much time passes at each rest, and revisions with it.
    pub(crate) shift: Option<Duration>,
    /// The operators that watch by themselves, and not through this runtime.
    pub(crate) plain: Option<&'a std::collections::BTreeSet<String>>,
}

/// Plays the scenario under a plan. The result is a function of scenario, seed and plan.
pub(crate) fn play(script: &Script, seed: u64, plan: &Plan, setting: Setting<'_>) -> Run {
    let options = script.options.clone().seed(seed).settle_limit(SETTLE_LIMIT);
    let options = if setting.without_events { options.controller_events(false) } else { options };
    // Built-in controllers that are under test may be stopped for a while, and their nodes' leases must not expire then.
    let options = if script.explores_controllers { options } else { options.heartbeat(HEARTBEAT) };
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
    let director = PlanDirector::new(cluster.clone(), plan.clone(), setting.shift, setting.plain);
    cluster.direct(Some(director.clone()));
    let scenario = AssertUnwindSafe((script.play)(cluster.clone())).catch_unwind();
    let failure = tokio::select! {
        biased;
        () = director.broken_off() => None,
        played = scenario => played.unwrap_or_else(|panic| Some(panic_text(&*panic))),
    };
    let failed_disturbed = failure.is_some() && director.is_unsettled();
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
        missed_webhook: moments.iter().any(is_missed_webhook),
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

/// Returns whether a moment is a call to an admission webhook that got no answer. Conversions are repeated.
fn is_missed_webhook(moment: &Moment) -> bool {
    let Moment::Webhook(call) = moment else { return false };
    let is_lost = matches!(call.outcome, Outcome::Lost { .. });
    is_lost && call.body.windows(REVIEW.len()).any(|window| window == REVIEW)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
