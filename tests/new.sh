#!/usr/bin/env bash
# Starts an operator by `evenkeel new`, runs its tests, and starts it on its embedded cluster: tests/new.sh [EVENKEEL]
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
evenkeel="${1:-$root/target/debug/evenkeel}"
# The operator is built with the profile and the versions of this workspace, so that it shares its build.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"
work="$(mktemp -d)"
operator=
trap '[ -z "$operator" ] || kill "$operator" 2>/dev/null || true; rm -rf "$work"' EXIT

# try NAME [FLAGS]: a new operator of this name tests well, and reconciles its sample on an embedded cluster.
try() {
  name="$1"
  (cd "$work" && "$evenkeel" new "$@" --group shop.example.com --path "$root")
  cd "$work/$name"
  cp "$root/Cargo.lock" .
  cargo test
  cargo fmt --check
  cargo build
  TMPDIR="$work" EVENKEEL_LOG=info "$CARGO_TARGET_DIR/debug/$name" --embedded --samples >"$work/out" 2>"$work/log" &
  operator=$!
  for _ in $(seq 100); do
    if grep -q '^kubectl: ' "$work/out" && kubectl --kubeconfig "$work/$name.kubeconfig" get configmap sample \
      -o 'jsonpath={.data.message}' 2>/dev/null | grep -qx hello; then
      kill "$operator"
      wait "$operator" || true
      operator=
      echo "$name works"
      return
    fi
    sleep 0.2
  done
  cat "$work/out" "$work/log" >&2
  echo "$name did not reconcile its sample" >&2
  exit 1
}

try web-shop
try cluster-shop --cluster-scoped
