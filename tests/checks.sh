# Shared by the scripts that drive kubectl: a work folder, checks that are counted, and kubectl itself. To be sourced.
# The caller sets `evenkeel` to the binary, and `server` to the id of the process that it starts.
work=$(mktemp -d)
failed=0
passed=0
server=

cleanup() {
  [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
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

# refuse NAME PATTERN COMMAND...: the command fails and its output matches the extended regular expression.
refuse() {
  local name=$1 pattern=$2 output
  shift 2
  if output=$("$@" 2>&1); then
    fail "$name" "it succeeded: $output"
  elif ! grep -qE -- "$pattern" <<<"$output"; then
    fail "$name" "no match for /$pattern/ in: $output"
  else
    passed=$((passed + 1))
  fi
}

k() { timeout 60 kubectl --cache-dir "$work/cache" "$@"; }

# edit SED KIND NAME: edits an object with `kubectl edit`; the editor runs this sed expression.
edit() {
  printf '#!/bin/sh\nsed -i %q "$1"\n' "$1" >"$work/editor"
  chmod +x "$work/editor"
  KUBE_EDITOR="$work/editor" k edit "$2" "$3"
}

# until_says PATTERN: waits until the started process has printed a matching line, at most two minutes.
until_says() {
  for _ in $(seq 1200); do
    grep -qs -- "$1" "$work/out" && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  echo "the process did not print $1:"
  cat "$work/out" "$work/err"
  exit 1
}

# ends SIGNAL: sends the signal; the started process must end soon with code 0. Then prints the number of passed checks,
# and exits.
ends() {
  local start code took
  start=$(date +%s%N)
  kill "-$1" "$server"
  wait "$server"
  code=$?
  took=$((($(date +%s%N) - start) / 1000000))
  server=
  [ "$code" = 0 ] || fail "end" "exit code $code"
  # The promise is one second; a busy machine gets ten.
  [ "$took" -lt 10000 ] || fail "end" "it took $took ms"
  [ -s "$work/err" ] && { echo "its log:"; head -20 "$work/err"; }
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}
