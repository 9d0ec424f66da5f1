//! `evenkeel up` under load: 4,000 connections and 10,000 watches for a minute, while 1,000 writes a second reach ten
//! watches each; then SIGTERM, under the same load.
//!
//! Client and server share the machine. The figures are printed; an error of any client, an event too few or too many, or
//! a server that does not end in order within five seconds fails it. Settings: `EVENKEEL_LOAD_CONNECTIONS`,
//! `EVENKEEL_LOAD_WATCHES`, `EVENKEEL_LOAD_WRITES` (a second) and `EVENKEEL_LOAD_SECONDS`.

mod driver;

use std::process::ExitCode;
use std::time::Duration;

use driver::Load;

/// How long the server may take to end.
const END_MAX: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), String> {
    let load = Load {
        connections: setting("EVENKEEL_LOAD_CONNECTIONS", 4000)?,
        watches: setting("EVENKEEL_LOAD_WATCHES", 10_000)?,
        writes_per_second: setting("EVENKEEL_LOAD_WRITES", 1000)?,
        seconds: setting("EVENKEEL_LOAD_SECONDS", 60)?,
    };
    raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let report = runtime.map_err(|error| error.to_string())?.block_on(driver::run(load))?;
    println!("{report}");
    if report.exit_code != Some(0) || report.ended_in > END_MAX {
        return Err(format!("it ended with {:?} after {:?}", report.exit_code, report.ended_in));
    }
    Ok(())
}

/// A setting of the environment, a number above zero; an error where it is anything else.
fn setting<T: std::str::FromStr + PartialOrd + From<u16>>(name: &str, unless_set: T) -> Result<T, String> {
    let Some(text) = std::env::var_os(name) else { return Ok(unless_set) };
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > T::from(0));
    number.ok_or_else(|| format!("{name} is no number above zero: {text:?}"))
}

/// The clients are files, too.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
