//! Runs the operator; `--help` says how.

use std::process::ExitCode;

fn main() -> ExitCode {
    visitors_app::operator().main()
}
