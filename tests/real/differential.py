#!/usr/bin/env python3
"""Sends the same requests to kube-apiserver and to `evenkeel up`, and counts the answers that differ.

The objects are those that the parity cases create (crates/parity/cases), one of each kind. Every field of theirs is removed,
emptied and set to wrong values, in creates, updates and merge patches, the latter of the status, too; all of that in dry
runs. The keys of the answers must be in the same order. The OpenAPI documents are compared without their texts. Neither side runs controllers, so that nothing but the API
servers writes.

Usage: tests/real/differential.py [--group create,update,patch,status,openapi] [--kind TEXT] [--show N] [--floor PERCENT]

`--show` prints so many examples of each class of difference. The command fails if the share of equal answers of a group is
below the floor. Needs what tests/real/run has built, target/debug/evenkeel (or EVENKEEL), openssl and PyYAML.
"""

import argparse
import collections
import copy
import glob
import http.client
import json
import os
import re
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VERSION = re.search(r"k8s.io/kubernetes (\S+)", open(f"{HERE}/go.mod").read()).group(1)
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
BIN = f"{CACHE}/evenkeel/real/{VERSION}"
EVENKEEL = os.environ.get("EVENKEEL", f"{ROOT}/target/debug/evenkeel")
# Below the range of ephemeral ports, and beside those of tests/real/run.
PORT = int(os.environ.get("REAL_PORT", "16443")) + 20
NAMESPACE = "differential"
READY_SECONDS = 60
# How many bytes of an answer an example shows.
SHOWN = 400

# Texts that no two servers share.
VARYING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'(resourceVersion\W{1,8}?:\W{0,8}?)\d+'), r"\1<version>"),
    (re.compile(r"\b10\.(0|96|97|98|99|100|101|102|103|104|105|106|107|108|109|110|111)\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"\b3\d{4}\b"), "<port>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<name>"),
    # Kubernetes numbers the types of CEL expressions at random, and names the place where it was compiled.
    (re.compile(r"selfType\d+"), "selfType"),
    (re.compile(r'in scheme \\*"[^"\\]*\\*"'), "in scheme <scheme>"),
]


class Server:
    """An API server on a port, with a connection that is kept."""

    def __init__(self, port, token):
        self.port, self.token, self.connection = port, token, None

    def ask(self, method, path, body=None, kind="application/json"):
        """Returns the status, the body and the warnings of an answer."""
        headers = {"Authorization": f"Bearer {self.token}", "User-Agent": "differential/1", "Content-Type": kind}
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        for is_last in (False, True):
            try:
                if self.connection is None:
                    context = ssl._create_unverified_context()
                    self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
                self.connection.request(method, path, data, headers)
                answer = self.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.connection = None
                if is_last:
                    raise
        try:
            value = json.loads(text)
        except ValueError:
            value = text.decode("utf-8", "replace")
        return {"status": answer.status, "warnings": answer.headers.get_all("Warning") or [], "body": value}


def start_servers(work, started):
    """Starts etcd, kube-apiserver and `evenkeel up`, and waits until both answer."""
    token = secrets.token_hex(16)
    with open(f"{work}/tokens.csv", "w") as file:
        file.write(f"{token},admin,admin,system:masters\n")
    subprocess.run(["openssl", "genrsa", "-out", f"{work}/accounts.key", "2048"], check=True, stderr=subprocess.DEVNULL)

    def start(name, *command):
        log = open(f"{work}/{name}.log", "w")
        started.append(subprocess.Popen(command, stdout=log, stderr=log))

    client, peer = (f"http://127.0.0.1:{PORT + offset}" for offset in (1, 2))
    start("etcd", f"{BIN}/server", "--data-dir", f"{work}/etcd", "--log-level", "error", "--unsafe-no-fsync",
          "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
          "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}")
    start("apiserver", f"{BIN}/kube-apiserver", "--etcd-servers", client, "--bind-address", "127.0.0.1",
          "--secure-port", str(PORT), "--cert-dir", f"{work}/pki", "--token-auth-file", f"{work}/tokens.csv",
          "--service-account-issuer", "https://kubernetes.default.svc",
          "--service-account-key-file", f"{work}/accounts.key",
          "--service-account-signing-key-file", f"{work}/accounts.key",
          "--service-cluster-ip-range", "10.0.0.0/16", "--authorization-mode", "RBAC", "--allow-privileged",
          # A single client sends everything.
          "--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0", "--enable-priority-and-fairness=false")
    start("evenkeel", EVENKEEL, "up", "--no-controllers", "--bind", f"127.0.0.1:{PORT + 3}",
          "--token-auth-file", f"{work}/tokens.csv", "--kubeconfig", f"{work}/kubeconfig")
    servers = [Server(PORT, token), Server(PORT + 3, token)]
    for server in servers:
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                if server.ask("GET", "/readyz")["status"] == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > end:
                sys.exit(f"the server on port {server.port} is not ready: see {work}")
            time.sleep(0.2)
    return servers


def candidates():
    """The objects that the parity cases create, by the path of their collection."""
    found = collections.defaultdict(list)
    for name in sorted(glob.glob(f"{ROOT}/crates/parity/cases/*.yaml")):
        for case in yaml.safe_load(open(name)):
            for step in case.get("steps", []):
                method, _, path = step.get("call", "").partition(" ")
                body = step.get("body")
                if method != "POST" or not isinstance(body, dict) or "kind" not in body or "{ns}.example" in path:
                    continue
                text = json.dumps(body).replace("{ns}", NAMESPACE)
                path = path.split("?")[0].replace("{ns}", NAMESPACE)
                if "{" not in path:
                    found[path].append(json.loads(text))
    return found


def places(value, path=()):
    """The paths of all fields of an object, but for its kind."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if path or key not in ("apiVersion", "kind"):
            yield path + (key,), item
            yield from places(item, path + (key,))


def wrong_values(value):
    """Values that a field with this value should not have, or not quite."""
    if isinstance(value, bool):
        return [None, "true", 1]
    if isinstance(value, (int, float)):
        return [None, -1, 0, 2**31, "x"]
    if isinstance(value, str):
        return [None, "", "Bad_Name!", 5, "x" * 300]
    return [None, {}, [], "x"]


def changed(base, path, value=None, remove=False):
    out = copy.deepcopy(base)
    parent = out
    for key in path[:-1]:
        parent = parent[key]
    if remove:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return out


def as_patch(path, value):
    """A merge patch of one field; None if the path leads through a list."""
    for key in reversed(path):
        if isinstance(key, int):
            return None
        value = {key: value}
    return value


def mutants(base):
    for path, value in places(base):
        yield path, "removed", changed(base, path, remove=True), as_patch(path, None)
        for wrong in wrong_values(value):
            yield path, json.dumps(wrong)[:12], changed(base, path, wrong), as_patch(path, wrong)


def without_texts(value):
    """A part of an OpenAPI document without its descriptions."""
    if isinstance(value, dict):
        is_text = lambda key, item: key == "description" and isinstance(item, str)
        return {key: without_texts(item) for key, item in value.items() if not is_text(key, item)}
    return [without_texts(item) for item in value] if isinstance(value, list) else value


def same_text(answer, is_sorted=True):
    text = json.dumps(answer, sort_keys=is_sorted)
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def classify(real, ours):
    """What differs between two answers; None if nothing does."""
    if same_text(real) == same_text(ours):
        is_object = isinstance(real["body"], dict) and "kind" in real["body"]
        same_order = not is_object or same_text(real, False) == same_text(ours, False)
        return None if same_order else "order"
    if real["status"] != ours["status"]:
        lenient = ours["status"] < 300 <= real["status"]
        return "more lenient" if lenient else "status"
    body, other = real["body"], ours["body"]
    if not (isinstance(body, dict) and body.get("kind") == "Status"):
        return "fields"
    causes = [[(it.get("reason"), it.get("field")) for it in (one.get("details") or {}).get("causes", [])]
              for one in (body, other)]
    return "message" if causes[0] == causes[1] and body.get("reason") == other.get("reason") else "causes"


class Run:
    """Sends requests to both servers and counts the classes of differences."""

    def __init__(self, servers, shown):
        self.servers, self.shown = servers, shown
        self.counts = collections.defaultdict(collections.Counter)
        self.pool = ThreadPoolExecutor(2)

    def both(self, *request):
        return list(self.pool.map(lambda server: server.ask(*request), self.servers))

    def compare(self, group, what, *request):
        self.judge(group, what, request, *self.both(*request))

    def judge(self, group, what, request, real, ours):
        found = classify(real, ours) or "equal"
        self.counts[group][found] += 1
        if found != "equal" and self.counts[group][found] <= self.shown:
            texts = [same_text(it["body"].get("message", it["body"]) if isinstance(it["body"], dict) else it["body"])
                     for it in (real, ours)]
            print(f"{group}, {found}: {request[0]} {request[1]} {what}")
            for name, answer, text in zip(("real", "ours"), (real, ours), texts):
                print(f"  {name}: {answer['status']} {text[:SHOWN]}")

    def openapi(self):
        """Compares each schema and each path of each OpenAPI document."""
        real, ours = self.both("GET", "/openapi/v3")
        for path in sorted(set(real["body"]["paths"]) | set(ours["body"]["paths"])):
            request = ("GET", f"/openapi/v3/{path}")
            documents = [without_texts(it["body"] if isinstance(it["body"], dict) else {}) for it in self.both(*request)]
            for part in (lambda it: it.get("paths", {}), lambda it: it.get("components", {}).get("schemas", {})):
                parts = [part(document) for document in documents]
                for name in sorted(set(parts[0]) | set(parts[1])):
                    answers = [{"status": 200, "warnings": [], "body": it.get(name)} for it in parts]
                    self.judge("openapi", name, request, *answers)

    def kind(self, path, groups, bases):
        dry = f"{path}?dryRun=All"
        base = next((it for it in bases if all(a["status"] == 201 for a in self.both("POST", dry, it))), None)
        if base is None or "name" not in base.get("metadata", {}):
            return
        name = base["metadata"]["name"]
        stored = any(group in groups for group in ("update", "patch", "status"))
        if stored and any(it["status"] != 201 for it in self.both("POST", path, base)):
            stored = False
        for place, what, mutant, patch in mutants(base):
            field = ".".join(map(str, place)) + " " + what
            if "create" in groups:
                self.compare("create", field, "POST", dry, mutant)
            at = f"{path}/{name}?dryRun=All"
            if stored and "update" in groups:
                self.compare("update", field, "PUT", at, mutant)
            if stored and "patch" in groups and patch is not None:
                self.compare("patch", field, "PATCH", at, patch, "application/merge-patch+json")
            if stored and "status" in groups and patch is not None and place[0] != "spec":
                at = f"{path}/{name}/status?dryRun=All"
                self.compare("status", field, "PATCH", at, patch, "application/merge-patch+json")
        if stored:
            self.both("DELETE", f"{path}/{name}")

    def report(self):
        classes = ["equal", "order", "message", "causes", "fields", "status", "more lenient"]
        print(f"{'':10}{'sent':>8}{'equal %':>9}" + "".join(f"{it:>14}" for it in classes[1:]))
        shares = []
        for group, counts in self.counts.items():
            total = sum(counts.values())
            shares.append(100 * counts["equal"] / total)
            print(f"{group:10}{total:8}{shares[-1]:9.1f}" + "".join(f"{counts[it]:14}" for it in classes[1:]))
        return min(shares, default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", default="create,update,patch")
    parser.add_argument("--kind", default="")
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--floor", type=float, default=0)
    options = parser.parse_args()
    # So that the servers end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.stdout.reconfigure(line_buffering=True)
    started = []
    with tempfile.TemporaryDirectory() as work:
        try:
            run = Run(start_servers(work, started), options.show)
            run.both("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            account = {"metadata": {"name": "default"}}
            run.both("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
            groups = options.group.split(",")
            if "openapi" in groups:
                run.openapi()
            for path, bases in sorted(candidates().items()) if set(groups) - {"openapi"} else []:
                if options.kind in path:
                    run.kind(path, groups, bases)
            least = run.report()
        finally:
            for process in started:
                process.kill()
                process.wait()
    sys.exit(1 if least < options.floor else 0)


if __name__ == "__main__":
    main()
