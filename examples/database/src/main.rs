//! Runs the operator; `--help` says how.

use std::process::ExitCode;

fn main() -> ExitCode {
    database::operator().main()
}
