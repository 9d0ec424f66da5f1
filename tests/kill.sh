#!/usr/bin/env bash
# Kills `evenkeel up --data-dir` with SIGKILL again and again under 16 writers and 4 watchers over HTTPS, and checks the
# history of what they saw for linearizability. Usage: tests/kill.sh [folder of the built binaries]
# EVENKEEL_KILLS is how often (20); EVENKEEL_KILL_SEED decides what the clients do and when the server is killed (1).
set -euo pipefail
cd "$(dirname "$0")/.."
built=${1:-${CARGO_TARGET_DIR:-target}/debug}
kills() { "$built/evenkeel-kill" --evenkeel "$built/evenkeel" "$@"; }

kills
# The check, checked: a log that loses its end with each kill is noticed.
if told=$(kills --kills 3 --lose-tail 4096 2>&1); then
  echo "lost writes were not noticed:" "$told" >&2
  exit 1
fi
if ! grep -q ' violations; ' <<<"$told"; then
  echo "lost writes were noticed for another reason:" "$told" >&2
  exit 1
fi
rm -rf "$(sed -n 's/.* violations; history, log and data are in //p' <<<"$told")"
