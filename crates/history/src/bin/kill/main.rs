//! Kills `evenkeel up --data-dir` again and again while clients write, read and watch over HTTPS, and checks that the
//! history of what they saw is linearizable.
//!
//! The seed decides what the clients do and when the server is killed. How these interleave differs from run to run,
//! because the run takes real time.
//!
//! Every wait has a bound, and fails with an error that says what it waited for.

mod watcher;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use evenkeel_history::client::{self, Client, Reply};
use evenkeel_history::server::Server;
use evenkeel_history::{Answer, Call, History, Recorder, Revision, Summary, Violation, check};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How many objects the writers write to: few, so that most writes compete.
const KEYS: usize = 6;
/// One kill in this many comes during a start, so that recovery is interrupted too.
const EARLY_ONE_OF: u32 = 6;
/// The most ticks of the recorder between a start and the next kill. A write takes six: two for itself and one for each
/// of four watchers. So between none and a hundred requests are served.
const WORK_MAX: u64 = 600;
/// How long the clients may take for that many ticks: on a busy machine a hundred times what they take.
const WORK_WITHIN: Duration = Duration::from_secs(60);
/// The assumed length of a start until one was measured.
const FIRST_START: Duration = Duration::from_millis(300);
/// How long the watchers may take to see the last write: on a busy machine a thousand times what it takes.
const CATCH_UP: Duration = Duration::from_secs(60);
/// How long a watcher may take for its first list, and to end after it was aborted.
const WATCHER_WITHIN: Duration = Duration::from_secs(60);
/// How long the check of the history may take. The history of a thousand kills takes seconds; one that is not
/// linearizable can take as long as the search is allowed to.
const CHECK_WITHIN: Duration = Duration::from_secs(900);
/// How many violations are printed. The first ones are telling; the others mostly follow from them.
const SHOWN: usize = 20;

/// Kill `evenkeel up --data-dir` under load and check the history of what its clients saw.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server binary to run and kill.
    #[arg(long, value_name = "PATH", default_value = "target/debug/evenkeel")]
    evenkeel: PathBuf,
    /// How often to kill the server.
    #[arg(long, env = "EVENKEEL_KILLS", value_name = "N", default_value_t = 20)]
    kills: u32,
    /// Decides what the clients do and when the server is killed.
    #[arg(long, env = "EVENKEEL_KILL_SEED", value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// How many clients write and read.
    #[arg(long, value_name = "N", default_value_t = 16)]
    writers: usize,
    /// How many clients watch.
    #[arg(long, value_name = "N", default_value_t = 4)]
    watchers: usize,
    /// Cut this many bytes off the newest log file after each kill, as a disk that loses synced writes would. The check
    /// must then fail.
    #[arg(long, value_name = "BYTES")]
    lose_tail: Option<u64>,
}

/// The state of the server, as the clients see it.
#[derive(Clone, Debug, Default)]
struct Phase {
    /// The number of the server process, from zero.
    server: usize,
    /// How to reach the server, while it is ready.
    client: Option<Client>,
    /// Whether the writers must end.
    done: bool,
}

/// The state that all clients share.
#[derive(Clone)]
struct Shared {
    recorder: Recorder,
    phase: tokio::sync::watch::Receiver<Phase>,
    /// The value of the newest write. No two writes use the same value.
    tokens: Arc<AtomicU64>,
    /// How many watches were told that their revision is gone.
    expired: Arc<AtomicU64>,
}

/// The result of the check.
type Checked = Result<Summary, Vec<Violation>>;

/// Counts of what happened to the server.
#[derive(Debug, Default)]
struct Figures {
    kills: u32,
    /// How many kills came during a start.
    early: u32,
    /// How long each start took.
    starts: Vec<Duration>,
    /// How many watches were told that their revision is gone.
    expired: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let run = runtime.context("cannot start").and_then(|runtime| runtime.block_on(run(arguments)));
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let recorder = Recorder::new(KEYS);
    let mut server = Server::new(&arguments.evenkeel, arguments.lose_tail)?;
    let (tell, phase) = tokio::sync::watch::channel(Phase::default());
    let shared =
        Shared { recorder: recorder.clone(), phase, tokens: Arc::default(), expired: Arc::default() };
    let mut figures = Figures::default();

    let client = server.start().await?;
    make_namespace(&client).await?;
    tell.send_modify(|phase| phase.client = Some(client));
    let mut watchers = JoinSet::new();
    for number in 0..arguments.watchers {
        let listed = Arc::new(tokio::sync::Notify::new());
        watchers.spawn(watcher::watch(shared.clone(), number, listed.clone()));
        let first_list = timeout(WATCHER_WITHIN, listed.notified()).await;
        first_list.with_context(|| format!("watcher {number} has not read its first list"))?;
    }
    let mut writers = JoinSet::new();
    for _ in 0..arguments.writers {
        let random = fastrand::Rng::with_seed(random.u64(..));
        writers.spawn(writer::write(shared.clone(), random));
    }
    while figures.kills < arguments.kills {
        work(&recorder, &mut random).await?;
        kill(&mut server, &recorder, &tell, &mut figures).await?;
        restart(&mut server, &recorder, &tell, &mut figures, &mut random, arguments.kills).await?;
    }
    work(&recorder, &mut random).await?;
    tell.send_modify(|phase| phase.done = true);
    let ending = async {
        while let Some(ended) = writers.join_next().await {
            ended?;
        }
        anyhow::Ok(())
    };
    let ended = timeout(WORK_WITHIN, ending).await;
    ended.with_context(|| format!("{} writers have not ended within {WORK_WITHIN:?}", writers.len()))??;
    let end = last_look(&shared).await?;
    let caught_up = timeout(CATCH_UP, async { while watchers.join_next().await.is_some() {} }).await;
    if caught_up.is_err() {
        eprintln!("{} watchers have not seen the last write within {CATCH_UP:?}", watchers.len());
        let ended = timeout(WATCHER_WITHIN, watchers.shutdown()).await;
        ended.context("aborted watchers do not end")?;
    }
    server.kill().await?;
    recorder.died();
    figures.expired = shared.expired.load(Ordering::Relaxed);
    report(recorder, end, &figures, &arguments, server, began).await
}

/// Lets the clients work for a random number of ticks.
async fn work(recorder: &Recorder, random: &mut fastrand::Rng) -> anyhow::Result<()> {
    let until = recorder.tick() + random.u64(0..=WORK_MAX);
    timeout(WORK_WITHIN, recorder.wait_for(until))
        .await
        .context("the clients have got too few answers from the server")
}

async fn kill(
    server: &mut Server,
    recorder: &Recorder,
    tell: &tokio::sync::watch::Sender<Phase>,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    server.kill().await?;
    recorder.died();
    figures.kills += 1;
    tell.send_modify(|phase| {
        phase.client = None;
        phase.server += 1;
    });
    if figures.kills.is_multiple_of(50) {
        eprintln!("{} kills", figures.kills);
    }
    Ok(())
}

/// Starts the server again. Some starts are interrupted by another kill.
async fn restart(
    server: &mut Server,
    recorder: &Recorder,
    tell: &tokio::sync::watch::Sender<Phase>,
    figures: &mut Figures,
    random: &mut fastrand::Rng,
    kills: u32,
) -> anyhow::Result<()> {
    loop {
        let start = Instant::now();
        let usual = figures.starts.last().copied().unwrap_or(FIRST_START);
        let early = figures.kills < kills && random.u32(0..EARLY_ONE_OF) == 0;
        if early && timeout(usual.mul_f64(random.f64()), server.start()).await.is_err() {
            figures.early += 1;
            kill(server, recorder, tell, figures).await?;
            continue;
        }
        let client = if server.is_ready() { server.client()? } else { server.start().await? };
        figures.starts.push(start.elapsed());
        tell.send_modify(|phase| phase.client = Some(client));
        return Ok(());
    }
}

async fn make_namespace(client: &Client) -> anyhow::Result<()> {
    let body = json!({ "metadata": { "name": client::NAMESPACE } });
    let mut connection = client.connect().await?;
    let reply = connection.send(http::Method::POST, "/api/v1/namespaces", Some(body)).await?;
    if reply.status != http::StatusCode::CREATED {
        bail!("cannot make a namespace: {reply:?}");
    }
    Ok(())
}

/// Reads every object once more, and writes the object that tells the watchers to end.
async fn last_look(shared: &Shared) -> anyhow::Result<Revision> {
    let client = shared.phase.borrow().client.clone().context("the server is not running")?;
    let mut connection = client.connect().await?;
    for key in 0..KEYS {
        let called = shared.recorder.tick();
        let reply = connection.send(http::Method::GET, &client::path(key), None).await?;
        let answer = match reply.status.as_u16() {
            200 => Answer::Object(client::object(&reply.body).context("the answer is not an object")?),
            404 => Answer::NotFound,
            code => bail!("the last read of object {key} was answered by {code}"),
        };
        shared.recorder.answered(key, Call::Get, called, answer);
    }
    let body = json!({ "metadata": { "name": client::END } });
    let reply: Reply = connection.send(http::Method::POST, client::COLLECTION, Some(body)).await?;
    client::revision(&reply.body).with_context(|| format!("cannot write the end: {reply:?}"))
}

async fn report(
    recorder: Recorder,
    end: Revision,
    figures: &Figures,
    arguments: &Arguments,
    server: Server,
    began: Instant,
) -> anyhow::Result<()> {
    let took = began.elapsed();
    let history = recorder.finish(Some(end));
    let checking = Instant::now();
    let Some(checked) = check_in_time(history.clone()).await? else {
        let folder = keep(server, &history)?;
        bail!(
            "the check of {} requests has not ended within {CHECK_WITHIN:?}; history, log and data are in {}",
            history.operations.len(),
            folder.display()
        );
    };
    let mut starts = figures.starts.clone();
    starts.sort_unstable();
    let median = starts.get(starts.len() / 2).copied().unwrap_or_default();
    println!(
        "{} kills ({} of them during a start), {} recoveries (median {median:.0?}, longest {:.0?}), {took:.0?} \
         and {:.0?} of checking; seed {}",
        figures.kills,
        figures.early,
        starts.len(),
        starts.last().copied().unwrap_or_default(),
        checking.elapsed(),
        arguments.seed,
    );
    match checked {
        Ok(summary) => {
            println!(
                "linearizable: {summary}, {} of which were told that their revision is gone",
                figures.expired
            );
            Ok(())
        }
        Err(violations) => {
            for violation in violations.iter().take(SHOWN) {
                eprintln!("{violation}");
            }
            let folder = keep(server, &history)?;
            bail!("{} violations; history, log and data are in {}", violations.len(), folder.display())
        }
    }
}

/// Checks a history on a thread of its own; `None` if that takes too long.
///
/// The thread is not one of the runtime's, because the runtime would wait for it before the process can end.
async fn check_in_time(history: History) -> anyhow::Result<Option<Checked>> {
    let (answer, checked) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("check".to_owned()).spawn(move || {
        // The send fails if the time is over.
        let _ = answer.send(check(history));
    })?;
    match timeout(CHECK_WITHIN, checked).await {
        Ok(checked) => Ok(Some(checked.context("the check has panicked")?)),
        Err(_) => Ok(None),
    }
}

/// Keeps the server's folder, with the history in it, and returns its path.
fn keep(server: Server, history: &History) -> anyhow::Result<PathBuf> {
    let folder = server.keep();
    std::fs::write(folder.join("history.json"), serde_json::to_vec(history)?)?;
    Ok(folder)
}
