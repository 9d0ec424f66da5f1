//! The manager's side of a leader election: starts the parts once this process leads, watches the lease, and releases it
//! at the end.

use evenkeel_env::Env;
use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ManagerError;
use crate::controller::Host;
use crate::fence::Fence;
use crate::leader::{Candidate, LeaderElection, LostLeadership};
use crate::metrics::Metrics;

/// The election that a manager takes part in.
pub(super) type Election = LeaderElection;

/// The leadership of a running manager, if it takes part in an election.
pub(super) struct Leadership {
    campaign: Option<JoinHandle<(Candidate, Result<(), LostLeadership>)>>,
    /// Cancelled when all work has ended; the lease is renewed until then.
    stop: CancellationToken,
    lost: bool,
    metrics: Metrics,
}

impl Leadership {
    /// Starts to campaign for the lease. `host.elected` is cancelled once this process leads.
    pub(super) fn start(
        election: Option<LeaderElection>,
        client: &Client,
        env: &Env,
        fence: Fence,
        host: &Host,
    ) -> Self {
        let stop = CancellationToken::new();
        let campaign = election.map(|election| {
            let candidate = Candidate::new(election, client.clone(), env.clone(), fence);
            host.tasks.spawn_named("leader election", campaign(candidate, stop.clone(), host.clone()))
        });
        Self { campaign, stop, lost: false, metrics: host.metrics.clone() }
    }

    /// Waits until the lease is lost; for ever if it never is.
    pub(super) async fn lost(&mut self) -> ManagerError {
        let Some(campaign) = &mut self.campaign else { return std::future::pending().await };
        let source = match campaign.await {
            Ok((_, Err(lost))) => lost.into(),
            Ok((_, Ok(()))) => return std::future::pending().await,
            Err(error) => error.into(),
        };
        self.campaign = None;
        self.lost = true;
        ManagerError { part: "leader election".into(), source }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Releases the lease.
    pub(super) async fn release(mut self) {
        self.stop.cancel();
        let Some(campaign) = self.campaign.take() else { return };
        if let Ok((mut candidate, Ok(()))) = campaign.await {
            candidate.release().await;
            self.metrics.leader(&candidate.lease_name(), false);
        }
    }
}

async fn campaign(
    mut candidate: Candidate,
    stop: CancellationToken,
    host: Host,
) -> (Candidate, Result<(), LostLeadership>) {
    let (lease, metrics) = (candidate.lease_name(), &host.metrics);
    metrics.leader(&lease, false);
    let Some(work) = candidate.acquire(&stop).await else { return (candidate, Ok(())) };
    metrics.leader(&lease, true);
    host.flight.leads(&lease, true);
    host.elected.cancel();
    let begun = async {
        host.standby.closed().await;
        drop(work);
    };
    let (result, ()) = tokio::join!(candidate.lead(&stop), begun);
    metrics.leader(&lease, false);
    host.flight.leads(&lease, false);
    (candidate, result)
}
