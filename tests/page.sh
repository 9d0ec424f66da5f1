#!/usr/bin/env bash
# Checks the dashboard in Chromium: page.sh [EVENKEEL [FOLDER_FOR_PICTURES]]. Needs node and npm, and the example `broken` of
# the dashboard beside EVENKEEL; installs Debian's chromium if there is none and the user may. PARTS=demo,broken,large,many,restart
# chooses parts.
set -euo pipefail
cd "$(dirname "$0")/.."
evenkeel=$(realpath "${1:-target/debug/evenkeel}")
broken=$(dirname "$evenkeel")/examples/broken
pictures=${2:+$(realpath "$2")}
if ! command -v chromium >/dev/null; then
  apt-get update -qq && apt-get install -y -qq chromium >/dev/null
fi
folder=target/page
mkdir -p "$folder"
cp tests/page/*.mjs crates/dashboard/page/package.json "$folder"
(cd "$folder" && npm install --silent --no-audit --no-fund --ignore-scripts)
# The types of the page's sources, and its copy of the chart library.
rm -rf "$folder/sources" && mkdir "$folder/sources"
cp -r crates/dashboard/page/. "$folder/sources"
(cd "$folder" && npx tsc -p sources)
cmp "$folder/node_modules/uplot/dist/uPlot.esm.js" crates/dashboard/page/vendor/uPlot.esm.js
cmp "$folder/node_modules/uplot/dist/uPlot.min.css" crates/dashboard/page/vendor/uPlot.min.css
node "$folder/page.mjs" "$evenkeel" "$broken" ${pictures:+"$pictures"}
