#!/usr/bin/env bash
# Starts `evenkeel up` in the background, waits until it is ready, and prints the variables to set: KUBECONFIG, and
# EVENKEEL_PID to end it. The GitHub Action and the snippets of the book use it.
# Usage: up.sh [KUBECONFIG] [flags of `evenkeel up`...]; EVENKEEL names the binary, if it is not in the PATH.
set -euo pipefail
kubeconfig=$(realpath -m "${1:-kubeconfig}")
shift $(($# > 0))
log=$(mktemp)
nohup "${EVENKEEL:-evenkeel}" up --bind 127.0.0.1:0 --kubeconfig "$kubeconfig" "$@" >"$log" 2>&1 </dev/null &
pid=$!
for _ in $(seq 600); do
  if grep -q '^ready: ' "$log"; then
    printf 'KUBECONFIG=%s\nEVENKEEL_PID=%s\n' "$kubeconfig" "$pid"
    exit
  fi
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
echo "evenkeel up did not get ready:" >&2
cat "$log" >&2
kill "$pid" 2>/dev/null || true
exit 1
