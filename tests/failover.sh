#!/usr/bin/env bash
# Runs two replicas of an operator against `evenkeel up`, makes the leader fail again and again (SIGSTOP, SIGKILL, a cut
# network, a deleted lease), and checks that no write of an old leader landed after the first one of a new leader.
# Usage: tests/failover.sh [folder of the built binaries]
# EVENKEEL_FAILOVERS sets the number of failures (6); EVENKEEL_FAILOVER_SEED how long each one lasts (1).
set -euo pipefail
cd "$(dirname "$0")/.."
built=${1:-${CARGO_TARGET_DIR:-target}/debug}
exec "$built/evenkeel-failover" --evenkeel "$built/evenkeel"
