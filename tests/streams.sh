#!/usr/bin/env bash
# Drives kubectl's logs, exec, attach, cp, port-forward and proxies against `evenkeel up` with handlers, over WebSockets
# and over SPDY. Usage: tests/streams.sh [path of the evenkeel binary]
set -uo pipefail
cd "$(dirname "$0")/.."
evenkeel=${1:-${CARGO_TARGET_DIR:-target}/debug/evenkeel}
. tests/checks.sh

# The application on this machine to which ports lead.
mkdir -p "$work/www" "$work/container" "$work/local"
echo 'the application' >"$work/www/index.html"
head -c 3000000 /dev/urandom >"$work/www/large"
python3 -u -m http.server --bind 127.0.0.1 --directory "$work/www" 0 >"$work/http" 2>&1 &
application=$!
forward=
# Ends the processes that this script has started, besides the server.
end_others() { kill $application $forward 2>/dev/null; }
trap 'end_others; cleanup' EXIT
for _ in $(seq 300); do
  grep -q 'port [0-9]' "$work/http" && break
  sleep 0.1
done
port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$work/http" | head -n 1)

export CONTAINER_FILES=$work/container
"$evenkeel" up --bind 127.0.0.1:0 --kubeconfig "$work/kubeconfig" \
  --exec-handler 'if [ "$EVENKEEL_CALL" = attach ]; then echo "attached to $EVENKEEL_POD"; exec cat; fi
    cd "$CONTAINER_FILES" && exec "$@"' \
  --port-handler "app=web@8080=127.0.0.1:$port" >"$work/out" 2>"$work/err" &
server=$!
until_says '^ready: '
export KUBECONFIG=$work/kubeconfig

k apply -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: { app: web }
  annotations:
    node.evenkeel.dev/log.web: "first\nsecond\n@3s third"
spec:
  containers:
    - { name: web, image: web, ports: [{ containerPort: 8080 }] }
    - { name: side, image: side }
---
apiVersion: v1
kind: Pod
metadata:
  name: crash
  annotations: { node.evenkeel.dev/behaviour: crash-loop, node.evenkeel.dev/log: "cannot open /data" }
spec:
  containers: [{ name: main, image: main }]
---
apiVersion: v1
kind: Pod
metadata:
  name: stuck
  annotations: { node.evenkeel.dev/pull: fail }
spec:
  containers: [{ name: main, image: main }]
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
YAML
expect "the pod is ready" 'condition met' k wait --for=condition=Ready pod/web --timeout=30s

# --- logs ----------------------------------------------------------------------------------------------------------
expect "follow a log" 'third' sh -c 'timeout 6 kubectl logs -f web -c web; true'
expect "logs" '^first$' k logs web -c web
expect "the last line" '^third$' k logs web -c web --tail=1
expect "the last line alone" '^1$' sh -c 'kubectl logs web -c web --tail=1 | wc -l'
expect "timestamps" '^20[0-9-]+T[0-9:]+\.[0-9]{9}Z third$' k logs web -c web --timestamps --tail=1
expect "since" 'third' k logs web -c web --since=1h
expect "since now" '^0$' sh -c 'sleep 1.2; kubectl logs web -c web --since=1s | wc -l'
expect "all containers" '\[pod/web/side\] side started' k logs web --all-containers --prefix
expect "the first container by default" 'Defaulted container "web"' k logs web
expect "by label" 'third' k logs -l app=web -c web
refuse "an unknown container" 'container x is not valid for pod web' k logs web -c x
refuse "no previous run" 'previous terminated container "web" in pod "web" not found' k logs web -c web --previous
refuse "a container that waits" 'container "main" in pod "stuck" is waiting to start' k logs stuck
refuse "an unknown pod" 'NotFound' k logs nobody
until k logs crash --previous >/dev/null 2>&1; do sleep 0.5; done &
waiting=$!
(sleep 60; kill $waiting 2>/dev/null) &
wait $waiting
expect "the previous run" 'cannot open /data' k logs crash --previous

# --- commands, over both protocols -----------------------------------------------------------------------------------
commands() {
  expect "$1: exec" '^hello world$' k exec web -c web -- echo hello world
  k exec web -c web -- sh -c 'exit 42' >/dev/null 2>&1
  local code=$?
  [ $code = 42 ] && passed=$((passed + 1)) || fail "$1: the exit code" "$code"
  expect "$1: errors are apart" '^oops$' sh -c 'kubectl exec web -c web -- sh -c "echo out; echo oops >&2" 2>&1 >/dev/null'
  expect "$1: stdin" '^3$' sh -c 'printf "a\nb\nc\n" | kubectl exec -i web -c web -- wc -l'
  expect "$1: much output" '^588895$' sh -c 'kubectl exec web -c web -- seq 100000 | wc -c'
  expect "$1: much input" '^588895$' sh -c 'seq 100000 | kubectl exec -i web -c web -- wc -c'
  expect "$1: a terminal" 'in a terminal' timeout 30 script -qec "kubectl exec -it web -c web -- echo in a terminal" /dev/null
  refuse "$1: an unknown program" 'exit code 127' k exec web -c web -- no-such-program
  expect "$1: attach" 'attached to web' sh -c 'echo typed | timeout 20 kubectl attach -i web -c web'
  expect "$1: what is typed" 'typed' sh -c 'echo typed | timeout 20 kubectl attach -i web -c web'
  refuse "$1: an unknown container" 'container x is not valid for pod web' k exec web -c x -- true
  seq 50000 >"$work/local/numbers"
  expect "$1: copy there" '' k cp "$work/local/numbers" web:there -c web
  expect "$1: it is there" '' cmp "$work/local/numbers" "$work/container/there"
  expect "$1: copy back" '' k cp web:there "$work/local/back" -c web
  expect "$1: it is back" '' cmp "$work/local/numbers" "$work/local/back"
  rm -f "$work/container/there" "$work/local/back"
}
KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true commands "WebSocket"
export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false
commands "SPDY"
unset KUBECTL_REMOTE_COMMAND_WEBSOCKETS

# --- ports, over both protocols --------------------------------------------------------------------------------------
# forwards TO PORTS: forwards a free port of this machine, whose number is then in $local.
forwards() {
  kubectl port-forward --address 127.0.0.1 "$@" >"$work/forward" 2>&1 &
  forward=$!
  for _ in $(seq 300); do
    grep -q 'Forwarding from' "$work/forward" && break
    sleep 0.1
  done
  local_port=$(sed -n 's/.*127.0.0.1:\([0-9]*\) .*/\1/p' "$work/forward" | head -n 1)
}
ends_forward() {
  kill $forward 2>/dev/null
  wait $forward 2>/dev/null
  forward=
}
ports() {
  forwards pod/web :8080
  for round in 1 2 3; do
    expect "$1: request $round" '^the application$' curl -s --max-time 20 "http://127.0.0.1:$local_port/"
  done
  expect "$1: a large answer" '' sh -c "curl -s --max-time 30 http://127.0.0.1:$local_port/large | cmp - $work/www/large"
  expect "$1: several at once" '^4$' sh -c "seq 4 | xargs -P4 -I{} curl -s --max-time 20 http://127.0.0.1:$local_port/ | grep -c application"
  ends_forward
  forwards service/web :80
  expect "$1: a service" '^the application$' curl -s --max-time 20 "http://127.0.0.1:$local_port/"
  ends_forward
  forwards pod/web :9999
  refuse "$1: nothing listens" '' curl -s --max-time 20 "http://127.0.0.1:$local_port/"
  expect "$1: kubectl says so" 'connection refused' sh -c "sleep 0.3; cat $work/forward"
  ends_forward
}
KUBECTL_PORT_FORWARD_WEBSOCKETS=true ports "ports over WebSocket"
export KUBECTL_PORT_FORWARD_WEBSOCKETS=false
ports "ports over SPDY"
unset KUBECTL_PORT_FORWARD_WEBSOCKETS

# --- proxies ---------------------------------------------------------------------------------------------------------
expect "a pod's proxy" '^the application$' k get --raw /api/v1/namespaces/default/pods/web:8080/proxy/
expect "a service's proxy" '^the application$' k get --raw /api/v1/namespaces/default/services/web:80/proxy/index.html
node=$(k get nodes -o name | head -n 1)
expect "a node's proxy" '^ok$' k get --raw "/api/v1/nodes/${node#node/}/proxy/healthz"

# --- without handlers ------------------------------------------------------------------------------------------------
refuse "a pod without a port handler" 'nothing answers for its ports' k port-forward pod/crash :80

end_others
ends TERM
