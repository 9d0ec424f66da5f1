//! Runs the operator; `--help` lists its options.

fn main() -> std::process::ExitCode {
    site::operator().main()
}
