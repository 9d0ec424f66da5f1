//! Runs the operator; `--help` says how.

fn main() -> std::process::ExitCode {
    site::operator().main()
}
