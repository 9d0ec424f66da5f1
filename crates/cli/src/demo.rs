//! `evenkeel demo`: the whole road, live.

pub(crate) mod causes;
mod samples;
mod story;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use evenkeel::Cluster;
use evenkeel::cluster::serve::{ServeOptions, Server};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use self::causes::Reconciled;
use self::story::Line;

/// How many nodes the demo's cluster has.
const NODES: usize = 3;
/// How long each act may take. Each takes well under a second; a machine that is busy gets ten times that.
const ACT_LIMIT: Duration = Duration::from_secs(10);
/// How many lines or causes may wait to be printed.
const MOST_WAITING: usize = 4096;

/// Show the loop at work: a cluster, two operators, samples, drift, deletion.
///
/// Starts the embedded cluster with the example operators, applies a sample of each, and shows each station of the
/// road as something is seen to pass it: the request accepted and the revision stored, the controller woken and why,
/// the children applied, the pods scheduled and ready, the status written. Then it deletes a child of each sample to
/// show drift corrected, and deletes the samples.
///
/// Without --exit it leaves fresh samples running and the API up for kubectl until Ctrl-C.
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
    /// Runs it; `reconciled` brings what the runtime logs of each reconcile.
    pub(crate) fn run(self, reconciled: Receiver<Reconciled>) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.show(reconciled));
        runtime.shutdown_background();
        result
    }

    async fn show(self, reconciled: Receiver<Reconciled>) -> anyhow::Result<()> {
        let start = Instant::now();
        let cluster = Cluster::builder().nodes(NODES).settle_limit(ACT_LIMIT).start().await?;
        let mut options = ServeOptions::default();
        options.bind = self.bind;
        let server = cluster.serve(options).await?;
        let kubeconfig = self.kubeconfig_path()?;
        server
            .write_kubeconfig(&kubeconfig)
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        say(format_args!("cluster: {} with {NODES} nodes, ready after {:?}", server.url(), start.elapsed()))?;
        say(format_args!("kubectl: export KUBECONFIG={}\n", kubeconfig.display()))?;

        let (lines, printed) = channel(MOST_WAITING);
        let printer = tokio::spawn(print(printed));
        let watching = watch(&cluster, start, lines, reconciled);
        let result = self.play(&cluster).await;
        for task in watching {
            task.abort();
            // It was aborted: that is its result.
            let _ = task.await;
        }
        printer.await??;
        result?;
        say(format_args!("\nconverged: every act ended as declared, after {:?}", start.elapsed()))?;
        if self.exit {
            return Ok(());
        }
        self.stay(&cluster, server).await
    }

    /// The acts, each followed by a look at whether the world is as declared.
    async fn play(&self, cluster: &Cluster) -> anyhow::Result<()> {
        say(format_args!("== the kinds are declared and the operators start"))?;
        samples::declare(cluster).await?;
        if !self.no_operators {
            samples::run_operators(cluster);
        }
        rest(cluster, "start").await?;

        say(format_args!("== a sample of each is applied"))?;
        samples::apply(cluster).await?;
        rest(cluster, "apply").await?;
        converged("apply", samples::unready(cluster).await?)?;

        say(format_args!("== a child of each is deleted: drift"))?;
        let before = samples::children(cluster).await?;
        samples::drift(cluster).await?;
        rest(cluster, "drift").await?;
        converged("drift", samples::not_replaced(cluster, &before).await?)?;
        converged("drift", samples::unready(cluster).await?)?;

        say(format_args!("== the samples are deleted"))?;
        samples::delete(cluster).await?;
        rest(cluster, "delete").await?;
        converged("delete", samples::left(cluster).await?)
    }

    async fn stay(&self, cluster: &Cluster, server: Server) -> anyhow::Result<()> {
        samples::apply(cluster).await?;
        say(format_args!(
            "the samples run again; try: kubectl get myresources,databases,pods   (Ctrl-C ends it)"
        ))?;
        server.run(crate::signals::ended()?).await;
        Ok(())
    }

    fn kubeconfig_path(&self) -> anyhow::Result<PathBuf> {
        let path =
            self.kubeconfig.clone().unwrap_or_else(|| std::env::temp_dir().join("evenkeel-demo.kubeconfig"));
        std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
    }
}

async fn rest(cluster: &Cluster, act: &str) -> anyhow::Result<()> {
    cluster.try_settled().await.with_context(|| format!("{act}: the cluster did not come to rest"))
}

fn converged(act: &str, failures: Vec<String>) -> anyhow::Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{act}: not converged:\n  {}", failures.join("\n  "))
}

/// Follows requests, reconciles and pods, and makes lines of them.
fn watch(
    cluster: &Cluster,
    start: Instant,
    lines: Sender<Line>,
    mut reconciled: Receiver<Reconciled>,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut requests = cluster.observe();
    let to = lines.clone();
    let of_requests = tokio::spawn(async move {
        use tokio::sync::broadcast::error::RecvError;
        loop {
            match requests.recv().await {
                Ok(exchange) => send(&to, story::of_request(&exchange, &samples::OPERATORS)).await,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
    let to = lines.clone();
    let of_reconciles = tokio::spawn(async move {
        while let Some(seen) = reconciled.recv().await {
            if samples::OPERATORS.contains(&seen.controller.as_str()) {
                let line = story::of_reconcile(start.elapsed(), &seen.controller, &seen.object, &seen.causes);
                send(&to, Some(line)).await;
            }
        }
    });
    let of_pods = tokio::spawn(samples::follow_pods(cluster.clone(), start, lines));
    vec![of_requests, of_reconciles, of_pods]
}

async fn send(to: &Sender<Line>, line: Option<Line>) {
    if let Some(line) = line {
        // It fails only when the printer has ended, which ends the demo.
        let _ = to.send(line).await;
    }
}

async fn print(mut lines: Receiver<Line>) -> anyhow::Result<()> {
    while let Some(line) = lines.recv().await {
        say(format_args!("{line}"))?;
    }
    Ok(())
}

fn say(text: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}
