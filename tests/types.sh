#!/usr/bin/env bash
# Generates types for all CustomResourceDefinitions of a folder, compiles them in one crate, and compares the definitions
# that the types describe with their sources: tests/types.sh FOLDER [EVENKEEL]
set -euo pipefail
folder="${1:?name a folder with definitions in YAML or JSON}"
root="$(cd "$(dirname "$0")/.." && pwd)"
evenkeel="${2:-$root/target/debug/evenkeel}"
# The temporary crate has features of its own, so that it shares no build with the workspace.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/types"
mapfile -t files < <(find "$folder" -maxdepth 1 -type f \( -name '*.yaml' -o -name '*.yml' -o -name '*.json' \) | sort)
[ "${#files[@]}" -gt 0 ] || { echo "$folder has no definitions" >&2; exit 1; }
exec "$evenkeel" generate types --check "${files[@]}"
