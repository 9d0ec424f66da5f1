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

# What a cluster in process costs, row by row; EVENKEEL_CRDS names a folder of definitions as JSON.
lean *ARGS:
    cargo bench -p evenkeel-cluster --bench lean -- {{ARGS}}

# Format and lint.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# Check the libraries with the types of every Kubernetes version that k8s-openapi has.
versions:
    bash .ci/versions 1.33 1.34 1.35 1.36 1.37

# The features of the library, each alone and none of them.
features:
    bash .ci/features none health leader-election metrics ring aws-lc-rs

# Compare with what Kubernetes answered; `just parity --diff --case NAME` shows where.
parity *ARGS:
    cargo run -p evenkeel-parity --bin parity -- {{ARGS}}

# Send generated requests to kube-apiserver and to `evenkeel up`, and count the answers that differ; `--show 3` shows some.
differential *ARGS:
    cargo build -p evenkeel-cli
    tests/real/differential.py {{ARGS}}

# Write down what still differs: crates/parity/gaps.
gaps:
    cargo run -p evenkeel-parity --bin parity -- --write-gaps

# Run controller-runtime's suites, from Go's module proxy, against `evenkeel up --no-controllers`; `--real` for kube-apiserver.
upstream *ARGS:
    cargo build -p evenkeel-cli
    tests/upstream/run {{ARGS}}

# Drive kubectl against `evenkeel up` and `evenkeel demo`.
kubectl:
    cargo build -p evenkeel-cli
    bash tests/kubectl.sh
    bash tests/streams.sh
    bash tests/demo.sh

# Check the dashboard in Chromium, and make the pictures of the book.
page:
    cargo build -p evenkeel-cli -p evenkeel-dashboard --examples --bins
    bash tests/page.sh target/debug/evenkeel docs/src/images

# What the flight recorder costs a reconcile, in instructions; needs valgrind.
flight *ARGS:
    cargo bench -p evenkeel-runtime --bench flight -- {{ARGS}}

# What an open dashboard costs a create, in processor time of the server.
page-cost:
    cargo bench -p evenkeel-cli --bench page

# Kill `evenkeel up --data-dir` this often under load, and check what its clients saw for linearizability.
kill kills="1000" seed="1":
    cargo build -p evenkeel-cli -p evenkeel-history
    EVENKEEL_KILLS={{kills}} EVENKEEL_KILL_SEED={{seed}} bash tests/kill.sh

# Hold 4,000 connections and 10,000 watches for a minute under 1,000 writes a second, then SIGTERM.
load:
    cargo bench -p evenkeel-cli --bench load

# Reviews a second over TLS beside controller-runtime's server, which needs Go, and what a webhook in process adds to a write.
reviews *ARGS:
    crates/runtime/benches/reviews/run {{ARGS}}

# Fail an operator over between two processes this often, and look for writes of an old leader after those of a new one.
failover rounds="200" seed="1":
    cargo build -p evenkeel-cli -p evenkeel-history
    EVENKEEL_FAILOVERS={{rounds}} EVENKEEL_FAILOVER_SEED={{seed}} bash tests/failover.sh

# Explore the examples, the fixed forms of bugs, and the built-in controllers in full: every single fault and 500 pairs.
explore:
    EVENKEEL_EXPLORE=full cargo test --release -p evenkeel-explore -p my-resource -p visitors-app -p vcap-services-converter -p pod-sidecar life fixed passes -- --nocapture
    EVENKEEL_EXPLORE=full cargo test --release -p evenkeel-explore --test controllers -- --nocapture

# Explore this many random operators that are right, and as many with a seeded mistake.
operators number="100":
    EVENKEEL_EXPLORE_OPERATORS={{number}} cargo test --release -p evenkeel-explore --test random -- --nocapture

# Build the book into docs/book; needs mdbook.
book:
    mdbook build docs

# Fuzz every target for this many seconds each.
fuzz seconds="60":
    fuzz/run {{seconds}}

# Run the store on a simulated disk under this many random plans of faults, from this seed on.
disk-faults plans="100000" seed="1":
    EVENKEEL_DISK_FAULTS={{plans}} EVENKEEL_DISK_FAULTS_SEED={{seed}} cargo test -p evenkeel-store --lib random_plans

# Run the runtime's tests and the examples against kube-apiserver and etcd, built once from Go's module proxy.
real *ARGS:
    tests/real/run {{ARGS}}

# Compare the API server with its model over a million random operations; EVENKEEL_SEED chooses others.
model operations="1000000":
    EVENKEEL_MODEL_OPERATIONS={{operations}} cargo test -p evenkeel-apiserver --test model -- --nocapture

# Run those of Kubernetes' own end-to-end specs that need no real container; `--list` names them.
conformance *ARGS:
    cargo build -p evenkeel-cli
    tests/upstream/conformance {{ARGS}}

# Generate, compile and compare types for all CustomResourceDefinitions in a folder.
types folder:
    cargo build -p evenkeel-cli
    bash tests/types.sh {{folder}}

# From an empty folder to production: `cargo add`, `evenkeel new`, its tests, lints and embedded clusters, Helm; and the size
# of the static binary.
new:
    cargo build -p evenkeel-cli
    bash .ci/helm target/helm
    EVENKEEL_NEW=full EVENKEEL_HELM="$PWD/target/helm/helm" bash tests/new.sh

# Test operators in Go and Python on `evenkeel up`; fetches their dependencies.
others *LANGUAGES:
    cargo build -p evenkeel-cli
    bash tests/others.sh target/debug {{LANGUAGES}}

# Install, upgrade, roll back and uninstall the chart of an example on `evenkeel up`; builds helm if it is missing.
helm:
    cargo build -p evenkeel-cli -p my-resource
    bash .ci/helm target/helm
    EVENKEEL_HELM="$PWD/target/helm/helm" bash tests/helm.sh
