//! The binary `parity`: replays cases against a cluster in process, or against any server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_parity::{Case, Gap, Gaps, Server, Suite, Wording, canonical, compare, in_process, replay};

/// Replays request scripts and compares with what Kubernetes answered.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Files of cases; those that come with this crate unless given.
    files: Vec<PathBuf>,
    /// The server to ask; a cluster in this process for each case unless given.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    case: String,
    /// Print each difference.
    #[arg(long)]
    diff: bool,
    /// Ignore the wording of messages: status, reason and fields still count.
    #[arg(long)]
    loose: bool,
    /// Leave out cases that need this, such as `controllers`.
    #[arg(long)]
    skip: Vec<String>,
    /// How many differences are printed for one case.
    #[arg(long, default_value_t = 8)]
    most: usize,
    /// Instead of a report, print the gaps that would make every case pass, closed by this issue.
    #[arg(long, value_name = "ISSUE")]
    gaps: Option<u32>,
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
        for case in suite.cases.iter().filter(|case| case.name.contains(&args.case)) {
            check(&args, &suite, case, &mut tally)?;
        }
    }
    if args.gaps.is_none() {
        println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    }
    Ok(if tally.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check(args: &Args, suite: &Suite, case: &Case, tally: &mut Tally) -> anyhow::Result<()> {
    let Some(want) =
        suite.golden.get(&case.name).filter(|_| !case.needs.iter().any(|need| args.skip.contains(need)))
    else {
        tally.skipped += 1;
        return Ok(());
    };
    let got = match answers(args, case) {
        Ok(got) => got,
        Err(error) => {
            tally.failed += 1;
            println!("FAIL {} {}  ({error:#})", suite.name, case.name);
            return Ok(());
        }
    };
    if let Some(issue) = args.gaps {
        Gaps::needed(&case.name, issue, want, &got).iter().for_each(print_gap);
        return Ok(());
    }
    let wording = if args.loose { Wording::Loose } else { Wording::Strict };
    let differences = compare(&canonical(want), &canonical(&got), wording);
    if differences.is_empty() {
        tally.passed += 1;
        return Ok(());
    }
    tally.failed += 1;
    println!("FAIL {} {}  ({} differences)", suite.name, case.name, differences.len());
    if args.diff {
        differences.iter().take(args.most).for_each(|difference| println!("     {difference}"));
    }
    Ok(())
}

fn answers(args: &Args, case: &Case) -> anyhow::Result<serde_json::Value> {
    let Some(kubeconfig) = &args.kubeconfig else { return in_process::answers(case) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::from_kubeconfig(kubeconfig).await?;
        replay(&server, case, &format!("p{}", evenkeel_env::Env::system().suffix(6))).await
    })
}

fn print_gap(gap: &Gap) {
    println!("{gap}");
}
