#!/usr/bin/env bash
# Generates types for all CustomResourceDefinitions of a folder, compiles them, and compares the definitions that the types
# describe with their sources: tests/types.sh FOLDER [EVENKEEL]
#
# All are generated first, which takes seconds and shows what cannot be generated. Then they are compiled and compared in
# batches: the dependencies are built once, and the compiler's memory stays within a few gigabytes.
set -euo pipefail
folder="${1:?name a folder with definitions in YAML or JSON}"
root="$(cd "$(dirname "$0")/.." && pwd)"
evenkeel="${2:-$root/target/debug/evenkeel}"
# How many bytes of definitions are compiled at once: a minute or two of the compiler.
batch_bytes=1500000
# The temporary crate has features of its own, so that it shares no build with the workspace.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/types"
mapfile -t files < <(find "$folder" -maxdepth 1 -type f \( -name '*.yaml' -o -name '*.yml' -o -name '*.json' \) | sort)
[ "${#files[@]}" -gt 0 ] || { echo "$folder has no definitions" >&2; exit 1; }

generated=()
failed=0
for file in "${files[@]}"; do
  if "$evenkeel" generate types "$file" >/dev/null; then
    generated+=("$file")
  else
    failed=$((failed + 1))
    echo "not generated: $file" >&2
  fi
done
echo "generated ${#generated[@]} of ${#files[@]}"

batch=()
bytes=0
# check: compiles and compares the batch, and begins a new one.
check() {
  [ "${#batch[@]}" -gt 0 ] || return 0
  "$evenkeel" generate types --check "${batch[@]}" || failed=$((failed + 1))
  # The temporary crate is never built again.
  rm -f "$CARGO_TARGET_DIR"/debug/generated-types* "$CARGO_TARGET_DIR"/debug/deps/generated_types-*
  batch=()
  bytes=0
}
for file in "${generated[@]}"; do
  size=$(wc -c <"$file")
  [ $((bytes + size)) -le "$batch_bytes" ] || check
  batch+=("$file")
  bytes=$((bytes + size))
done
check
[ "$failed" = 0 ] || { echo "failed: $failed files or batches" >&2; exit 1; }
