#!/usr/bin/env bash
# Operators in other languages on `evenkeel up`: the tests of docs/others/go (controller-runtime) and docs/others/python (kopf),
# as their authors would run them on kind. A language that is not installed is skipped, unless it is named.
# Usage: tests/others.sh [folder of the binaries] [go] [python]
set -uo pipefail
cd "$(dirname "$0")/.."
binaries=${1:-${CARGO_TARGET_DIR:-target}/debug}
shift $(($# > 0))
. tests/checks.sh
wanted=" $* "
refuse "what does not start says why" 'evenkeel up did not get ready' env EVENKEEL="$binaries/evenkeel" docs/others/up.sh "$work/k" --nodes many
variables=$(EVENKEEL="$binaries/evenkeel" docs/others/up.sh "$work/kubeconfig" --nodes 1) || exit 1
export KUBECONFIG=${variables#KUBECONFIG=}
KUBECONFIG=${KUBECONFIG%%$'\n'*}
pid=${variables##*EVENKEEL_PID=}
trap 'kill "$pid" 2>/dev/null; cleanup' EXIT
expect "the variables lead to the cluster" 'Ready' k get nodes

# chosen LANGUAGE COMMAND: whether the tests of a language are run.
chosen() {
  case $wanted in
    *" $1 "*) return ;;
    '  ') command -v "$2" >/dev/null || { echo "skipped $1: $2 is not installed" && return 1; } ;;
    *) return 1 ;;
  esac
}

in_folder() { (cd "docs/others/$1" && shift && "$@"); }

if chosen go go; then
  expect "controller-runtime with USE_EXISTING_CLUSTER" 'ok[[:space:]]+example.com/mirror' \
    in_folder go env USE_EXISTING_CLUSTER=true go test -count=1 ./...
fi
if chosen python python3; then
  expect "a virtual environment" '' python3 -m venv "$work/python"
  expect "kopf from PyPI" '' "$work/python/bin/pip" install --quiet -r docs/others/python/requirements.txt
  expect "kopf" 'OK' in_folder python "$work/python/bin/python" -B -m unittest -v
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
