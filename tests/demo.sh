#!/usr/bin/env bash
# Drives kubectl against `evenkeel demo`: the operators follow what a person does. Usage: tests/demo.sh [path of the evenkeel binary]
set -uo pipefail
cd "$(dirname "$0")/.."
evenkeel=${1:-${CARGO_TARGET_DIR:-target}/debug/evenkeel}
work=$(mktemp -d)
failed=0
passed=0

cleanup() {
  [ -n "${demo:-}" ] && kill "$demo" 2>/dev/null && wait "$demo" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  failed=$((failed + 1))
  printf 'FAIL %s\n%s\n' "$1" "$2" | head -20
}

# expect NAME PATTERN COMMAND...: the command succeeds and its output matches the extended regular expression.
expect() {
  local name=$1 pattern=$2 output
  shift 2
  if ! output=$("$@" 2>&1); then
    fail "$name" "exit code not 0: $output"
  elif ! grep -qE -- "$pattern" <<<"$output"; then
    fail "$name" "no match for /$pattern/ in: $output"
  else
    passed=$((passed + 1))
  fi
}

k() { timeout 60 kubectl --cache-dir "$work/cache" "$@"; }

# edit SED KIND NAME: what a person does in an editor.
edit() {
  printf '#!/bin/sh\nsed -i %q "$1"\n' "$1" >"$work/editor"
  chmod +x "$work/editor"
  KUBE_EDITOR="$work/editor" k edit "$2" "$3"
}

"$evenkeel" demo --kubeconfig "$work/kubeconfig" >"$work/out" 2>"$work/err" &
demo=$!
for _ in $(seq 1200); do
  grep -q '^try: ' "$work/out" && break
  kill -0 "$demo" 2>/dev/null || { cat "$work/out" "$work/err"; echo "the demo ended"; exit 1; }
  sleep 0.1
done
export KUBECONFIG=$work/kubeconfig

# --- look ----------------------------------------------------------------------------------------------------------
expect "the line for kubectl" "^kubectl: export KUBECONFIG=$work/kubeconfig$" cat "$work/out"
expect "it converged" '^converged: every act ended as declared' cat "$work/out"
expect "get the samples" 'visitorsapp.example.com/guestbook' k get myresources,visitorsapps,databases
expect "my resource is ready" '^web +nginx:1.29 +Ready' k get myresources
expect "the site is ready" '^guestbook +2 +True' k get visitorsapps
expect "the database runs" '^orders .*Running' k get databases
expect "three nodes are ready" '^3$' sh -c "kubectl get nodes --no-headers | grep -c ' Ready '"
expect "describe" 'Image: +nginx:1.29' k describe myresource web
expect "describe conditions" 'AllTiersReady' k describe visitorsapp guestbook
expect "describe a database" 'Phase: +Running' k describe database orders

# --- edit ----------------------------------------------------------------------------------------------------------
expect "edit my resource" 'edited' edit 's/nginx:1.29/nginx:1.30/' myresource web
expect "its deployment follows" 'condition met' k wait --for=jsonpath='{.spec.template.spec.containers[0].image}'=nginx:1.30 deployment/web --timeout=30s
expect "it is ready again" 'condition met' k wait --for=jsonpath='{.status.phase}'=Ready myresource/web --timeout=30s
expect "edit the site" 'edited' edit 's/size: 2/size: 3/' visitorsapp guestbook
expect "its backend follows" 'condition met' k wait --for=jsonpath='{.status.readyReplicas}'=3 deployment/guestbook-backend --timeout=30s
expect "edit the database" 'edited' edit 's/replicas: 2/replicas: 3/' database orders
expect "its servers follow" 'condition met' k wait --for=jsonpath='{.status.readyReplicas}'=3 statefulset/orders --timeout=30s

# --- disturb -------------------------------------------------------------------------------------------------------
uid=$(k get deployment web -o 'jsonpath={.metadata.uid}')
expect "delete a child" 'deleted' k delete deployment web
for _ in $(seq 100); do
  again=$(k get deployment web -o 'jsonpath={.metadata.uid}' 2>/dev/null)
  [ -n "$again" ] && [ "$again" != "$uid" ] && break
  sleep 0.1
done
expect "it is made anew" 'condition met' k wait --for=condition=Available deployment/web --timeout=30s
[ "$again" != "$uid" ] || fail "it is made anew" "the uid is still $uid"

# --- delete --------------------------------------------------------------------------------------------------------
expect "delete my resource" 'deleted' k delete myresource web
expect "delete the site" 'deleted' k delete visitorsapp guestbook
expect "delete the database" 'deleted' k delete database orders
expect "the deployments go" '' k wait --for=delete deployment/web deployment/guestbook-mysql deployment/guestbook-frontend --timeout=30s
expect "the servers go" '' k wait --for=delete statefulset/orders pod/orders-0 --timeout=30s
expect "nothing is left" 'No resources found' k get myresources,visitorsapps,databases,deployments,statefulsets
expect "the demo tells it" 'woken +visitors-app +for default/guestbook: ' cat "$work/out"

# --- end -----------------------------------------------------------------------------------------------------------
kill -INT "$demo"
wait "$demo"
code=$?
demo=
[ "$code" = 0 ] || fail "end" "exit code $code"
[ -s "$work/err" ] && { echo "the demo's log:"; head -20 "$work/err"; }
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
