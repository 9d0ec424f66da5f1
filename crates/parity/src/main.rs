//! The binary `parity`: replays cases against a cluster in process, or against any server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use evenkeel_parity::{Case, Gaps, Server, Suite, Wording, canonical, compare, in_process, replay};

/// Replays request scripts and compares with what Kubernetes answered.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Files of cases (default: the ones that come with this crate).
    files: Vec<PathBuf>,
    /// The server to send the requests to (default: a new cluster in this process for each case).
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Replay only cases whose name contains this text.
    #[arg(long, default_value = "")]
    case: String,
    /// Print each difference.
    #[arg(long)]
    diff: bool,
    /// Do not compare the wording of messages; status, reason and fields are still compared.
    #[arg(long)]
    loose: bool,
    /// Skip cases that need this, such as `controllers`.
    #[arg(long)]
    skip: Vec<String>,
    /// The largest number of differences to print for one case.
    #[arg(long, default_value_t = 8)]
    most: usize,
    /// Instead of a report, write the gaps that make every case pass to the folder `gaps` beside the folder of the
    /// cases. A gap that is listed already keeps its issue.
    #[arg(long)]
    write_gaps: bool,
    /// With --write-gaps: the number of the issue that closes gaps which are not listed yet, or 0.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    issue: u32,
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let files = if args.files.is_empty() { Suite::shipped()? } else { args.files.clone() };
    let mut tally = Tally::default();
    for file in &files {
        let suite = Suite::read(file)?;
        if args.write_gaps {
            write_gaps(&args, file, &suite)?;
            continue;
        }
        for case in suite.cases.iter().filter(|case| case.name.contains(&args.case)) {
            check(&args, &suite, case, &mut tally);
        }
    }
    if !args.write_gaps {
        println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    }
    Ok(if tally.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes the gaps of one suite, or removes its file of gaps if there are none.
fn write_gaps(args: &Args, file: &Path, suite: &Suite) -> anyhow::Result<()> {
    let path = gaps_path(file, &suite.name);
    let known = Gaps::read(&path)?;
    let mut text = String::new();
    for case in &suite.cases {
        let Some(want) = suite.golden.get(&case.name) else { continue };
        let got = answers(args, case).unwrap_or_default();
        for gap in Gaps::needed(&case.name, args.issue, want, &got) {
            let listed =
                known.of(&case.name).iter().find(|it| it.step == gap.step && it.pointer == gap.pointer);
            text.push_str(&format!("{}\n", listed.unwrap_or(&gap)));
        }
    }
    println!("{}: {} gaps", suite.name, text.lines().count());
    if text.is_empty() {
        let _ = std::fs::remove_file(&path);
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn gaps_path(file: &Path, name: &str) -> PathBuf {
    let folder = file.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    folder.join("gaps").join(format!("{name}.yaml"))
}

fn check(args: &Args, suite: &Suite, case: &Case, tally: &mut Tally) {
    let Some(want) =
        suite.golden.get(&case.name).filter(|_| !case.needs.iter().any(|need| args.skip.contains(need)))
    else {
        tally.skipped += 1;
        return;
    };
    let got = match answers(args, case) {
        Ok(got) => got,
        Err(error) => {
            tally.failed += 1;
            println!("FAIL {} {}  ({error:#})", suite.name, case.name);
            return;
        }
    };
    let wording = if args.loose { Wording::Loose } else { Wording::Strict };
    let differences = compare(&canonical(want), &canonical(&got), wording);
    if differences.is_empty() {
        tally.passed += 1;
        return;
    }
    tally.failed += 1;
    println!("FAIL {} {}  ({} differences)", suite.name, case.name, differences.len());
    if args.diff {
        differences.iter().take(args.most).for_each(|difference| println!("     {difference}"));
    }
}

fn answers(args: &Args, case: &Case) -> anyhow::Result<serde_json::Value> {
    let Some(kubeconfig) = &args.kubeconfig else { return in_process::answers(case) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::from_kubeconfig(kubeconfig).await?;
        replay(&server, case, &format!("p{}", evenkeel_env::Env::system().suffix(6))).await
    })
}
