//! `evenkeel demo`: the example operators at work in an embedded cluster.

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
use evenkeel_dashboard::{Dashboard, Source};
use futures::TryStreamExt as _;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::hint::Hinted;
use crate::up::CHOOSE_KUBECONFIG;

use self::screen::Screen;
use self::story::Line;

/// How many nodes the demo's cluster has.
const NODES: usize = 3;
/// How long each act may take. An act takes about a second; a busy machine gets sixty times as long.
const ACT_LIMIT: Duration = Duration::from_secs(60);
/// The capacity of the queue of lines to print.
const MOST_WAITING: usize = 4096;

/// Show five example operators at work: creation, drift, deletion.
///
/// Starts an embedded cluster with three nodes and the example operators, applies a sample for each operator, and
/// prints a line for each step that it observes:
///
///     accepted   a write of a user was stored under a new revision
///     woken      a controller began to reconcile an object, and why
///     applied    an operator wrote a child object
///     created    a built-in controller created a ReplicaSet or a Pod
///     scheduled  a Pod was assigned to a node
///     ready      a Pod became ready on its node
///     status     an operator wrote a status
///     finalizer  an operator added or removed its finalizer
///     deleted    a user or an operator deleted an object
///     collected  the garbage collector deleted an object
///     stopped    a node stopped a Pod
///     reviewed   the API server asked a webhook of an operator
///     refused    a write of a user was refused
///
/// Then it requests a change that a webhook refuses, deletes a child of each sample, which the operators restore, and
/// finally deletes the samples.
///
/// Without --exit it applies the samples again and keeps everything running for kubectl until Ctrl-C.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Demo {
    /// Exit when everything has converged; fail if something does not converge.
    #[arg(long)]
    exit: bool,
    /// The address to listen on; port 0 takes any free port.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    bind: SocketAddr,
    /// Where to write the kubeconfig [default: evenkeel-demo.kubeconfig in the temporary directory].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Serve the dashboard on this loopback address; port 0 takes any free port
    /// [default: 127.0.0.1:0, unless --exit is given].
    #[arg(long, value_name = "ADDR:PORT")]
    dashboard: Option<SocketAddr>,
    /// Run without the operators, to see that nothing happens without them: the demo then fails.
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
        options.records = true;
        let server = cluster.serve(options).await?;
        cluster.serve_record();
        let kubeconfig = self.kubeconfig_path()?;
        server.write_kubeconfig(&kubeconfig).with_context(|| {
            Hinted::new(format!("cannot write {}", kubeconfig.display()), CHOOSE_KUBECONFIG)
        })?;
        let screen = Arc::new(Screen::new(&examples::names()));
        screen.say(&format!(
            "cluster: {} with {NODES} nodes, ready after {:.1?}",
            server.url(),
            start.elapsed()
        ))?;
        screen.say(&format!("kubectl: export KUBECONFIG={}", kubeconfig.display()))?;
        if let Some(address) = self.dashboard_address() {
            let dashboard = Dashboard::bind(address, Source::Cluster(cluster.clone())).await?;
            screen.say(&format!("dashboard: {}", dashboard.one_time_link()))?;
            tokio::spawn(dashboard.run());
        }
        screen.say("")?;
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(async {
            // The sender is dropped to stop the server, which gives an error here.
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

    /// Plays the acts, and checks after each whether the objects are as declared.
    async fn play(&self, cluster: &Cluster, screen: &Screen) -> anyhow::Result<()> {
        screen.say("== create the custom resource definitions and start the operators")?;
        samples::declare(cluster).await?;
        if !self.no_operators {
            samples::run_operators(cluster);
        }
        rest(cluster, "start").await?;

        screen.say("== apply a sample for each operator")?;
        samples::apply(cluster).await?;
        rest(cluster, "apply").await?;
        demand("apply", samples::unready(cluster).await?)?;
        demand("apply", samples::not_defaulted(cluster).await?)?;

        screen.say("== ask for less storage than a database has: a webhook refuses it")?;
        demand("refuse", samples::not_refused(cluster).await?)?;

        screen.say("== delete a child of each sample: drift")?;
        let before = samples::children(cluster).await?;
        samples::drift(cluster).await?;
        rest(cluster, "drift").await?;
        demand("drift", samples::not_replaced(cluster, &before).await?)?;
        demand("drift", samples::unready(cluster).await?)?;

        screen.say("== delete the samples")?;
        samples::delete(cluster).await?;
        rest(cluster, "delete").await?;
        demand("delete", samples::left(cluster).await?)
    }

    /// Applies the samples again, and shows what happens to them until Ctrl-C.
    async fn stay(&self, cluster: &Cluster, screen: &Screen, start: Instant) -> anyhow::Result<()> {
        screen.say(&converged(start))?;
        screen.say("== apply the samples again, for you to try; stop with Ctrl-C")?;
        samples::apply(cluster).await?;
        rest(cluster, "apply again").await?;
        demand("apply again", samples::unready(cluster).await?)?;
        screen.say("try: kubectl get myresources,visitorsapps,databases,pods")?;
        crate::os::shutdown_signal()?.await;
        Ok(())
    }

    /// The address of the dashboard, if it is served.
    fn dashboard_address(&self) -> Option<SocketAddr> {
        let default = (!self.exit).then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        self.dashboard.or(default)
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
    cluster.try_settled().await.with_context(|| format!("{act}: the cluster did not settle"))
}

fn demand(act: &str, failures: Vec<String>) -> anyhow::Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{act}: not converged:\n  {}", failures.join("\n  "))
}

/// The tasks that observe the cluster and print lines.
struct Story {
    /// Dropped to stop observing requests and reconciles.
    stop: oneshot::Sender<()>,
    of_moments: JoinHandle<()>,
    of_pods: JoinHandle<()>,
    printing: JoinHandle<anyhow::Result<()>>,
}

impl Story {
    /// Observes requests, reconciles and pods, and prints lines about them.
    fn follow(cluster: &Cluster, start: Instant, screen: &Arc<Screen>) -> Self {
        let (lines, printed) = channel(MOST_WAITING);
        let (stop, stopped) = oneshot::channel();
        let of_moments = tokio::spawn(follow_moments(cluster.observe(), start, lines.clone(), stopped));
        let of_pods = tokio::spawn(follow_pods(cluster.clone(), start, lines));
        let printing = tokio::spawn(print(printed, screen.clone()));
        Self { stop, of_moments, of_pods, printing }
    }

    /// Prints the lines of everything observed so far, and stops.
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
            // First take what was observed before the stop.
            biased;
            moment = moments.recv() => moment,
            _ = &mut stop => return,
        };
        match moment {
            Ok(moment) => {
                if let Some(line) = story::of_moment(start.elapsed(), &moment, &names) {
                    // This fails only if the printer has stopped with an error, which ends the demo.
                    let _ = to.send(line).await;
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Sends a line for each pod that becomes ready.
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
            // This fails only if the printer has stopped with an error, which ends the demo.
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
