//! The rounds: the leader fails in one of several ways, the other replica takes over, and the old one comes back.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use evenkeel_history::check_terms;
use evenkeel_history::client::Client;
use evenkeel_history::server::Server;
use http::Method;
use tokio::time::Instant;

use crate::operator::LEASE;
use crate::replica::Replica;
use crate::writes::{NAMESPACE, Writes};

/// The longest time between two failures.
const CALM: Duration = Duration::from_millis(400);
/// How many late writes are printed.
const SHOWN: usize = 20;

/// How a leader fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    /// SIGSTOP until the other replica has written, then SIGCONT.
    Stopped,
    /// SIGSTOP for about as long as the lease lasts, so that the leader resumes while the other takes over or just before.
    StoppedBriefly,
    /// SIGKILL.
    Killed,
    /// The network is cut until the other replica has written.
    Cut,
    /// The network is cut for about as long as the lease lasts.
    CutBriefly,
    /// The lease is deleted.
    LeaseDeleted,
}

impl Failure {
    const ALL: [Self; 6] =
        [Self::Stopped, Self::Cut, Self::Killed, Self::StoppedBriefly, Self::CutBriefly, Self::LeaseDeleted];
}

/// Plays the rounds and checks the writes.
pub(crate) async fn play(evenkeel: &Path, rounds: u32, seed: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut server = Server::new(evenkeel, None)?;
    let client = server.start().await?;
    let writes = Writes::watch(&client).await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = server.kubeconfig();
    let mut replicas = [
        Replica::new("a", server.address(), &kubeconfig, folder.path()).await?,
        Replica::new("b", server.address(), &kubeconfig, folder.path()).await?,
    ];
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counts: BTreeMap<Failure, u32> = BTreeMap::new();
    let mut takeovers = 0;
    for round in 0..rounds {
        let leader = leader(&writes, &mut replicas).await?;
        tokio::time::sleep(CALM.mul_f64(random.f64())).await;
        // Each failure in turn, so that a short run has all of them.
        let failure = Failure::ALL[round as usize % Failure::ALL.len()];
        let [a, b] = &mut replicas;
        let (leader, other) = if leader == 0 { (a, b) } else { (b, a) };
        let old = leader.identity();
        let failed = tokio::select! {
            failed = fail(failure, leader, &writes, &client, &mut random) => failed,
            error = other.supervise() => Err(error),
        };
        failed.with_context(|| format!("round {round}: {failure:?} of {old}"))?;
        *counts.entry(failure).or_default() += 1;
        takeovers += u32::from(writes.leader() != old);
        if (round + 1).is_multiple_of(20) {
            eprintln!("{} rounds, {} late writes", round + 1, check_terms(&writes.all()).len());
        }
    }
    for replica in &mut replicas {
        replica.kill().await?;
    }
    let all = writes.all();
    server.kill().await?;
    println!(
        "{rounds} rounds {counts:?}, {takeovers} takeovers, {} writes, {:.0?}",
        all.len(),
        began.elapsed()
    );
    let overlaps = check_terms(&all);
    for overlap in overlaps.iter().take(SHOWN) {
        eprintln!("{overlap}");
    }
    if !overlaps.is_empty() {
        bail!("{} late writes; the logs are in {}", overlaps.len(), folder.keep().display());
    }
    println!("no write of an old leader landed after the first one of a new leader");
    Ok(())
}

/// Waits for a write of a running replica and returns the index of that replica.
async fn leader(writes: &Writes, replicas: &mut [Replica; 2]) -> anyhow::Result<usize> {
    loop {
        let [a, b] = replicas.each_mut();
        let writer = tokio::select! {
            writer = writes.next() => writer?,
            error = a.supervise() => return Err(error),
            error = b.supervise() => return Err(error),
        };
        let is_writer = |replica: &Replica| replica.identity() == writer;
        if let Some(leader) = replicas.iter().position(is_writer) {
            return Ok(leader);
        }
    }
}

async fn fail(
    failure: Failure,
    leader: &mut Replica,
    writes: &Writes,
    client: &Client,
    random: &mut fastrand::Rng,
) -> anyhow::Result<()> {
    let old = leader.identity();
    // Between a half and one and a half times the duration of the lease.
    let about_a_lease = LEASE.mul_f64(0.5 + random.f64());
    match failure {
        Failure::Stopped => {
            leader.signal("STOP").await?;
            writes.by_other_than(&old).await?;
            leader.signal("CONT").await?;
            leader.ended().await
        }
        Failure::StoppedBriefly => {
            leader.signal("STOP").await?;
            tokio::time::sleep(about_a_lease).await;
            leader.signal("CONT").await
        }
        Failure::Killed => {
            leader.kill().await?;
            writes.by_other_than(&old).await.map(drop)
        }
        Failure::Cut => {
            leader.proxy.cut();
            writes.by_other_than(&old).await?;
            leader.proxy.heal();
            leader.ended().await
        }
        Failure::CutBriefly => {
            leader.proxy.cut();
            tokio::time::sleep(about_a_lease).await;
            leader.proxy.heal();
            Ok(())
        }
        Failure::LeaseDeleted => {
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/failover");
            client.connect().await?.send(Method::DELETE, &path, None).await?;
            Ok(())
        }
    }
}
