//! Runs the operator; `--help` says how.

use std::process::ExitCode;

fn main() -> ExitCode {
    my_resource::operator().main()
}
