//! Runs the operator; `--help` says how.

use std::process::ExitCode;

fn main() -> ExitCode {
    vcap_services_converter::operator().main()
}
