# `just` lists these.
default:
    @just --list

# Everything that CI runs.
ci:
    bash .ci/run

# The tests.
test:
    cargo test --workspace

# The demo: cluster, operators, samples, drift, deletion.
demo:
    cargo run --release -- demo --exit

# Benchmarks; each prints ratios from one run.
bench:
    cargo bench --workspace

# Format and lint.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings
