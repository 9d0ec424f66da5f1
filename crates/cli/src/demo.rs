//! `evenkeel demo`: the whole road, live.

mod examples;
mod samples;
mod screen;
mod story;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use evenkeel::Cluster;
use evenkeel::cluster::Moment;
use evenkeel::cluster::serve::ServeOptions;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::ResourceExt as _;
use evenkeel::kube::api::{WatchEvent, WatchParams};
use futures::TryStreamExt as _;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::screen::Screen;
use self::story::Line;

/// How many nodes the demo's cluster has.
const NODES: usize = 3;
/// How long each act may take. Each takes about a second; a machine that is busy gets sixty times that.
const ACT_LIMIT: Duration = Duration::from_secs(60);
/// How many lines may wait to be printed.
const MOST_WAITING: usize = 4096;

/// Show the loop at work: a cluster, five operators, samples, drift, deletion.
///
/// Starts the embedded cluster with three nodes and the example operators, applies a sample of each, and shows each
/// station of the road as something is seen to pass it:
///
///     accepted   a request was accepted and stored under a new revision
///     woken      a controller was woken, and why
///     applied    an operator wrote a child
///     created    a built-in controller made a ReplicaSet or a Pod
///     scheduled  a Pod was given a node
///     ready      a Pod became ready on its node
///     status     an operator wrote a status
///     finalizer  an operator set or removed its finalizer
///     deleted, collected, stopped
///                a user or an operator deleted something, the garbage collector followed, a node stopped a Pod
///
/// Then it deletes a child of each sample to show drift corrected, and deletes the samples.
///
/// Without --exit it then applies the samples once more and leaves everything up for kubectl until Ctrl-C.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Demo {
    /// End when everything has converged, with code 0, or else with what has not.
    #[arg(long)]
    exit: bool,
    /// The address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    bind: SocketAddr,
    /// Where the kubeconfig is written [default: evenkeel-demo.kubeconfig in the temporary directory].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Leave the operators out, to see that nothing happens by itself: the demo then fails.
    #[arg(long)]
    no_operators: bool,
}

impl Demo {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.show());
        runtime.shutdown_background();
        result
    }

    async fn show(self) -> anyhow::Result<()> {
        let start = Instant::now();
        let cluster = Cluster::builder().nodes(NODES).settle_limit(ACT_LIMIT).start().await?;
        let mut options = ServeOptions::default();
        options.bind = self.bind;
        let server = cluster.serve(options).await?;
        let kubeconfig = self.kubeconfig_path()?;
        server
            .write_kubeconfig(&kubeconfig)
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let screen = Arc::new(Screen::new(&examples::names()));
        screen.say(&format!(
            "cluster: {} with {NODES} nodes, ready after {:.1?}",
            server.url(),
            start.elapsed()
        ))?;
        screen.say(&format!("kubectl: export KUBECONFIG={}\n", kubeconfig.display()))?;
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(async {
            // Whoever drops the other end wants the same.
            let _ = ended.await;
        }));

        let story = Story::follow(&cluster, start, &screen);
        let played = self.play(&cluster, &screen).await;
        let result = match played {
            Ok(()) if self.exit => Ok(()),
            Ok(()) => self.stay(&cluster, &screen, start).await,
            Err(error) => Err(error),
        };
        let told = story.end().await;
        screen.clear();
        if result.is_ok() && self.exit {
            screen.say(&converged(start))?;
        }
        drop(end);
        serving.await?;
        result.and(told)
    }

    /// The acts, each followed by a look at whether the world is as declared.
    async fn play(&self, cluster: &Cluster, screen: &Screen) -> anyhow::Result<()> {
        screen.say("== the kinds are declared and the operators start")?;
        samples::declare(cluster).await?;
        if !self.no_operators {
            samples::run_operators(cluster);
        }
        rest(cluster, "start").await?;

        screen.say("== a sample of each is applied")?;
        samples::apply(cluster).await?;
        rest(cluster, "apply").await?;
        demand("apply", samples::unready(cluster).await?)?;

        screen.say("== a child of each is deleted: drift")?;
        let before = samples::children(cluster).await?;
        samples::drift(cluster).await?;
        rest(cluster, "drift").await?;
        demand("drift", samples::not_replaced(cluster, &before).await?)?;
        demand("drift", samples::unready(cluster).await?)?;

        screen.say("== the samples are deleted")?;
        samples::delete(cluster).await?;
        rest(cluster, "delete").await?;
        demand("delete", samples::left(cluster).await?)
    }

    /// Leaves fresh samples up, and goes on telling what happens to them.
    async fn stay(&self, cluster: &Cluster, screen: &Screen, start: Instant) -> anyhow::Result<()> {
        screen.say(&converged(start))?;
        screen.say("== the samples once more, for you: Ctrl-C ends it")?;
        samples::apply(cluster).await?;
        rest(cluster, "apply again").await?;
        demand("apply again", samples::unready(cluster).await?)?;
        screen.say("try: kubectl get myresources,visitorsapps,databases,pods")?;
        crate::signals::ended()?.await;
        Ok(())
    }

    fn kubeconfig_path(&self) -> anyhow::Result<PathBuf> {
        let path =
            self.kubeconfig.clone().unwrap_or_else(|| std::env::temp_dir().join("evenkeel-demo.kubeconfig"));
        std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
    }
}

fn converged(start: Instant) -> String {
    format!("converged: every act ended as declared, after {:.1?}", start.elapsed())
}

async fn rest(cluster: &Cluster, act: &str) -> anyhow::Result<()> {
    cluster.try_settled().await.with_context(|| format!("{act}: the cluster did not come to rest"))
}

fn demand(act: &str, failures: Vec<String>) -> anyhow::Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{act}: not converged:\n  {}", failures.join("\n  "))
}

/// What is seen, on its way to the screen.
struct Story {
    /// Dropped to end the following of moments.
    stop: oneshot::Sender<()>,
    of_moments: JoinHandle<()>,
    of_pods: JoinHandle<()>,
    printing: JoinHandle<anyhow::Result<()>>,
}

impl Story {
    /// Follows requests, reconciles and pods, and makes lines of them.
    fn follow(cluster: &Cluster, start: Instant, screen: &Arc<Screen>) -> Self {
        let (lines, printed) = channel(MOST_WAITING);
        let (stop, stopped) = oneshot::channel();
        let of_moments = tokio::spawn(follow_moments(cluster.observe(), start, lines.clone(), stopped));
        let of_pods = tokio::spawn(follow_pods(cluster.clone(), start, lines));
        let printing = tokio::spawn(print(printed, screen.clone()));
        Self { stop, of_moments, of_pods, printing }
    }

    /// Prints what was seen until now, and ends.
    async fn end(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.of_moments.await?;
        self.of_pods.abort();
        self.printing.await?
    }
}

async fn follow_moments(
    mut moments: broadcast::Receiver<Moment>,
    start: Instant,
    to: Sender<Line>,
    mut stop: oneshot::Receiver<()>,
) {
    let names = examples::names();
    loop {
        let moment = tokio::select! {
            // What was seen before the end is told before the end.
            biased;
            moment = moments.recv() => moment,
            _ = &mut stop => return,
        };
        match moment {
            Ok(moment) => {
                if let Some(line) = story::of_moment(start.elapsed(), &moment, &names) {
                    // It fails only when the printer has ended, which ends the demo.
                    let _ = to.send(line).await;
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Says of each pod when it has become ready.
async fn follow_pods(cluster: Cluster, start: Instant, to: Sender<Line>) {
    let mut ready = std::collections::BTreeSet::new();
    let pods = cluster.api::<Pod>();
    let Ok(events) = pods.watch(&WatchParams::default(), "0").await else { return };
    let mut events = std::pin::pin!(events);
    while let Ok(Some(event)) = events.try_next().await {
        if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
            && story::is_ready(&pod)
            && ready.insert(pod.uid())
        {
            // It fails only when the printer has ended, which ends the demo.
            let _ = to.send(story::of_ready_pod(start.elapsed(), &pod)).await;
        }
    }
}

async fn print(mut lines: Receiver<Line>, screen: Arc<Screen>) -> anyhow::Result<()> {
    while let Some(line) = lines.recv().await {
        screen.tell(&line)?;
    }
    Ok(())
}
