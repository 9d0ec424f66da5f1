#!/usr/bin/env bash
# Kills `evenkeel up --data-dir` with SIGKILL repeatedly, while 16 writers and 4 watchers use it over HTTPS, and checks
# that the history of what they observed is linearizable. Usage: tests/kill.sh [folder of the built binaries]
# EVENKEEL_KILLS sets the number of kills (20); EVENKEEL_KILL_SEED what the clients do and when the kills happen (1).
set -euo pipefail
cd "$(dirname "$0")/.."
built=${1:-${CARGO_TARGET_DIR:-target}/debug}
kills() { "$built/evenkeel-kill" --evenkeel "$built/evenkeel" "$@"; }

kills
# A test of the check: it must detect a log that loses its end with each kill.
if told=$(kills --kills 3 --lose-tail 4096 2>&1); then
  echo "lost writes were not detected:" "$told" >&2
  exit 1
fi
if ! grep -q ' violations; ' <<<"$told"; then
  echo "the run with lost writes failed for another reason:" "$told" >&2
  exit 1
fi
rm -rf "$(sed -n 's/.* violations; history, log and data are in //p' <<<"$told")"
