#!/usr/bin/env python3
"""Checks that the effect of each field of the workload kinds is held by its test.

Hides one field after the other from the controllers (crates/controllers/src/object/unseen.rs), runs the test that
crates/controllers/tests/fields.tsv names for the field, and expects that it fails. What the API server does with a field
cannot be hidden like that: tests of other crates are listed and not run, and a test of the controllers that shows such an
effect is reported as not holding the field.

Usage: tests/fields.py [regular expression over Type.field]...
"""

import functools
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A test that hangs without its field is held by it. The slowest test takes some seconds.
SECONDS = 120


def binaries():
    """Builds the tests. Returns the binaries of the controllers' tests, by the folder of their sources."""
    build = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    found = {}
    for line in subprocess.run(build, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
        message = json.loads(line)
        target = message.get("target", {})
        if message.get("executable") and message["profile"]["test"]:
            source = Path(target["src_path"]).relative_to(ROOT / "crates")
            if source.parts[0] == "controllers":
                found[str(source.parent)] = message["executable"]
    return found


def test_name(file, folder, test):
    """Returns the name of a test within its binary."""
    modules = list(Path(file).relative_to(folder).with_suffix("").parts)
    if folder.endswith("src") and modules[-1] != "tests":
        modules.append("tests")
    return "::".join([*modules, test])


@functools.cache
def passes(binary, test, unseen=None):
    """Whether a test passes, with one field unseen."""
    environment = {key: value for key, value in os.environ.items() if key != "EVENKEEL_UNSEEN_FIELD"}
    if unseen:
        environment["EVENKEEL_UNSEEN_FIELD"] = unseen
    try:
        run = subprocess.run(
            [binary, test, "--exact"], cwd=ROOT / "crates/controllers", env=environment, timeout=SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        return False
    if "running 1 test" not in run.stdout:
        sys.exit(f"there is no test {test}:\n{run.stdout}")
    return run.returncode == 0


def main():
    rows = [line.split("\t") for line in (ROOT / "crates/controllers/tests/fields.tsv").read_text().splitlines()]
    rows = [row for row in rows if row[2] == "effect"]
    chosen = sys.argv[1:] or [""]
    rows = [row for row in rows if any(re.search(it, f"{row[0]}.{row[1]}") for it in chosen)]
    found = binaries()

    def check(row):
        field, (file, test) = f"{row[0]}.{row[1]}", row[3].split("::")
        folder = next((it for it in found if file.startswith(f"{it}/")), None)
        if folder is None:
            return "elsewhere", field, row[3]
        name = test_name(file, folder, test)
        if not passes(found[folder], name):
            return "broken", field, row[3]
        return ("not held" if passes(found[folder], name, field) else "held"), field, row[3]

    with ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        results = list(pool.map(check, rows))
    for result, field, test in results:
        if result != "held":
            print(f"{result}\t{field}\t{test}")
    counts = {kind: sum(it[0] == kind for it in results) for kind in ("held", "not held", "elsewhere", "broken")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    sys.exit(1 if counts["not held"] or counts["broken"] else 0)


main()
