#!/usr/bin/env python3
"""Records how Kubernetes converts custom resources by webhook, into crates/apiserver/tests/conversion/recorded.json.

Starts kube-apiserver and etcd (built by tests/real/run) and a conversion webhook over TLS, and sends the requests of the
cases below. Each case has a definition and a group of its own. The webhook converts as `convert` says and then edits its
answer as the step `webhook` says; crates/apiserver/tests/it/conversion_recorded.rs does the same in process, and compares
the responses.

Usage: tests/real/conversion.py [record]
       tests/real/conversion.py bench [KUBECONFIG]

`bench` measures the first list of 5,000 objects in a version that none of them was converted to: on kube-apiserver, or on
the server of a kubeconfig with a client certificate, such as that of `evenkeel up`. Both call the same webhook over TLS.
"""

import base64
import copy
import http.client
import http.server
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = re.search(r"k8s.io/kubernetes (\S+)", open(f"{HERE}/go.mod").read()).group(1)
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
BIN = f"{CACHE}/evenkeel/real/{VERSION}"
PORT = int(os.environ.get("REAL_PORT", "16443"))
HOOK_PORT = PORT + 7
RECORDED = f"{HERE}/../../crates/apiserver/tests/conversion/recorded.json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
# How long the watch caches of Kubernetes get to follow a write.
SETTLE_SECONDS = 0.4


class Cluster:
    """kube-apiserver and etcd, with an administrator's token."""

    def __init__(self, work):
        self.token = secrets.token_hex(16)
        with open(f"{work}/tokens.csv", "w") as file:
            file.write(f"{self.token},admin,admin,system:masters\n")
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["openssl", "genrsa", "-out", f"{work}/accounts.key", "2048"], **quiet)
        make_certificates(work)
        self.context, self.host, self.port = ssl._create_unverified_context(), "127.0.0.1", PORT
        self.started = []
        client, peer = f"http://127.0.0.1:{PORT + 1}", f"http://127.0.0.1:{PORT + 2}"
        self.start(work, "etcd", f"{BIN}/server", "--data-dir", f"{work}/etcd", "--log-level", "error", "--unsafe-no-fsync",
                   "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                   "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}")
        self.start(work, "apiserver", f"{BIN}/kube-apiserver", "--etcd-servers", client, "--bind-address", "127.0.0.1",
                   "--secure-port", str(PORT), "--cert-dir", f"{work}/pki", "--token-auth-file", f"{work}/tokens.csv",
                   "--service-account-issuer", "https://kubernetes.default.svc",
                   "--service-account-key-file", f"{work}/accounts.key",
                   "--service-account-signing-key-file", f"{work}/accounts.key",
                   "--service-cluster-ip-range", "10.0.0.0/16", "--authorization-mode", "RBAC", "--allow-privileged")
        for _ in range(900):
            try:
                if self.call("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"kube-apiserver is not ready; its log is {work}/apiserver.log")

    def start(self, work, name, *command):
        log = open(f"{work}/{name}.log", "w")
        self.started.append(subprocess.Popen(command, stdout=log, stderr=log))

    def stop(self):
        for process in self.started:
            process.kill()
            process.wait()

    def request(self, method, path, body=None, headers=None, timeout=70):
        sent = {"content-type": "application/json", "user-agent": "it/1"}
        sent.update({"authorization": f"Bearer {self.token}"} if self.token else {})
        sent.update(headers or {})
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.context, timeout=timeout)
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        return connection.getresponse()

    def call(self, method, path, body=None, headers=None):
        response = self.request(method, path, body, headers)
        text = response.read().decode()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def watch(self, path, seconds):
        """The events of a watch until none comes for `seconds`, and whether the watch has ended."""
        response = self.request("GET", path, timeout=seconds)
        if response.status != 200:
            return response.status, [json.loads(response.read())], True
        events = []
        try:
            while line := response.readline():
                events.append(json.loads(line))
            return 200, events, True
        except TimeoutError:
            return 200, events, False


class Remote(Cluster):
    """The server of a kubeconfig as `evenkeel up` writes it."""

    def __init__(self, kubeconfig, work):
        text = open(kubeconfig).read()
        self.host, self.port = re.search(r"server\"?: \"?https://([^:/\"]+):(\d+)", text).groups()
        self.started, self.token = [], (re.search(r"token\"?: \"?([^\"\s}]+)", text) or [None, ""])[1]
        self.context = ssl._create_unverified_context()
        parts = [re.search(rf"client-{part}-data\"?: \"?([^\"\s}}]+)", text) for part in ("certificate", "key")]
        if all(parts):
            for name, part in zip(("client.crt", "client.key"), parts):
                with open(f"{work}/{name}", "wb") as file:
                    file.write(base64.b64decode(part.group(1)))
            self.context.load_cert_chain(f"{work}/client.crt", f"{work}/client.key")
        make_certificates(work)


def make_certificates(work):
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", f"{work}/hook.key", "-out", f"{work}/hook.crt"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"] + subject + files, **quiet)


class Webhook:
    """A conversion webhook over TLS that edits its answers as `mode` says."""

    def __init__(self, work):
        self.mode, self.calls, self.objects = {}, 0, 0
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Without it, small answers wait for delayed acknowledgements.
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["content-length"])))
                code, media, body = webhook.answer(review)
                head = f"HTTP/1.1 {code} X\r\ncontent-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        server = Server(("127.0.0.1", HOOK_PORT), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{work}/hook.crt", f"{work}/hook.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(self, review):
        mode, request = self.mode, review["request"]
        self.calls += 1
        self.objects += len(request["objects"])
        desired = request["desiredAPIVersion"]
        if not desired.endswith(mode.get("to", "")):
            mode = {}
        time.sleep(mode.get("slow", 0))
        media = mode.get("media", "application/json")
        if "raw" in mode:
            return mode.get("code", 200), media, mode["raw"].encode()
        converted = [convert(thing, desired) for thing in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        for pointer, value in mode.get("set", []):
            edit(answer, pointer, value)
        for pointer in mode.get("remove", []):
            edit(answer, pointer, None, remove=True)
        return mode.get("code", 200), media, json.dumps(answer).encode()


def edit(value, pointer, new, remove=False):
    *path, last = pointer.split("/")[1:]
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value.setdefault(part, {})
    last = int(last) if isinstance(value, list) else last
    if remove:
        value.pop(last, None)
    else:
        value[last] = new


def convert(thing, desired):
    """v1 has `spec.size`, the other versions have `spec.amount.value`."""
    spec = thing.setdefault("spec", {})
    size = spec.pop("size", None)
    amount = spec.pop("amount", None)
    size = amount.get("value") if size is None and isinstance(amount, dict) else size
    if size is not None and desired.endswith("/v1"):
        spec["size"] = size
    elif size is not None:
        spec["amount"] = {"value": size}
    thing["apiVersion"] = desired
    return thing


def version(name, fields, **more):
    fields = {**fields, "note": {"type": "string"}, "replicas": {"type": "integer"},
              "color": {"type": "string", "default": f"{name}-color"}}
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}, "status": status}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return {"name": name, "served": True, "storage": False, "subresources": {"status": {}, "scale": scale},
            "schema": {"openAPIV3Schema": schema}, **more}


def definition(edits):
    amount = {"amount": {"type": "object", "properties": {"value": {"type": "integer"}}}}
    made = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.{g}"},
        "spec": {
            "group": "{g}", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", {"size": {"type": "integer"}}, storage=True),
                         version("v2", amount, selectableFields=[{"jsonPath": ".spec.note"}])],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://{hook}/convert", "caBundle": "{ca}"}}}}}
    for pointer, value in edits:
        edit(made, pointer, value)
    return made


def things(version, rest=""):
    return f"/apis/{{g}}/{version}/namespaces/default/things{rest}"


def thing(version, name, spec, **metadata):
    return {"apiVersion": f"{{g}}/{version}", "kind": "Thing", "metadata": {"name": name, **metadata}, "spec": spec}


def defined(*edits):
    return {"define": definition(edits)}


def webhook(**mode):
    return {"webhook": mode}


def ask(method, path, body=None, only=None, **headers):
    step = {"method": method, "path": path, "body": body, "headers": headers}
    return step | ({"only": only} if only else {})


def create(version, name, spec, **metadata):
    return ask("POST", things(version), thing(version, name, spec, **metadata))


def get(version, rest, **headers):
    return ask("GET", things(version, rest), **headers)


def patch(version, rest, body, media):
    return ask("PATCH", things(version, rest), body, **media)


FIRST = "/response/convertedObjects/0"
FAILED = {"set": [["/response/result", {"status": "Failure", "message": "cannot do it"}]]}

# What the webhook does wrong, and what comes of it when an object is read.
WRONG = {
    "500": {"code": 500, "raw": "boom"},
    "500 as text": {"code": 500, "raw": "boom\n", "media": "text/plain; charset=utf-8"},
    "500 with a Status": {"code": 500, "raw": '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"told","code":500}'},
    "400": {"code": 400, "raw": "boom", "media": "text/plain"},
    "403": {"code": 403, "raw": "boom", "media": "text/plain"},
    "404": {"code": 404, "raw": "nope"},
    "503": {"code": 503, "raw": "boom", "media": "text/plain"},
    "malformed": {"raw": "{nonsense"},
    "malformed later": {"raw": '{"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {]}'},
    "empty": {"raw": ""},
    "a list": {"raw": "[]"},
    "text": {"raw": "<html>"},
    "another uid": {"set": [["/response/uid", "other"]]},
    "no uid": {"remove": ["/response/uid"]},
    "no response": {"remove": ["/response"]},
    "null response": {"set": [["/response", None]]},
    "no objects": {"set": [["/response/convertedObjects", []]]},
    "objects missing": {"remove": ["/response/convertedObjects"]},
    "two objects": {"set": [["/response/convertedObjects", [{}, {}]]]},
    "failure": FAILED,
    "failure without a message": {"set": [["/response/result", {"status": "Failure"}]]},
    "no result": {"remove": ["/response/result"]},
    "result is text": {"set": [["/response/result", "x"]]},
    "review of v1beta1": {"set": [["/apiVersion", "apiextensions.k8s.io/v1beta1"]]},
    "review of another kind": {"set": [["/kind", "Other"]]},
    "review of another group": {"set": [["/apiVersion", "x.io/v1"]]},
    "review without a kind": {"remove": ["/kind"]},
    "review without a version": {"remove": ["/apiVersion"]},
    "object of another version": {"set": [[f"{FIRST}/apiVersion", "{g}/v1"]]},
    "object of another group": {"set": [[f"{FIRST}/apiVersion", "b.example.com/v2"]]},
    "object without a version": {"remove": [f"{FIRST}/apiVersion"]},
    "object of another kind": {"set": [[f"{FIRST}/kind", "Other"]]},
    "object without a kind": {"set": [[FIRST, {"apiVersion": "{g}/v2"}]]},
    "object is null": {"set": [[FIRST, None]]},
    "object is text": {"set": [[FIRST, "x"]]},
    "another name": {"set": [[f"{FIRST}/metadata/name", "x"]]},
    "another namespace": {"set": [[f"{FIRST}/metadata/namespace", "x"]]},
    "no namespace": {"remove": [f"{FIRST}/metadata/namespace"]},
    "object with another uid": {"set": [[f"{FIRST}/metadata/uid", "x"]]},
    "no metadata": {"remove": [f"{FIRST}/metadata"]},
    "metadata is text": {"set": [[f"{FIRST}/metadata", "x"]]},
    "other metadata": {"set": [[f"{FIRST}/metadata/resourceVersion", "7"], [f"{FIRST}/metadata/finalizers", ["a/b"]],
                               [f"{FIRST}/metadata/generation", 77], [f"{FIRST}/metadata/creationTimestamp", None],
                               [f"{FIRST}/metadata/ownerReferences", []], [f"{FIRST}/metadata/managedFields", []]]},
    "labels and annotations": {"set": [[f"{FIRST}/metadata/labels", {"new": "yes"}],
                                       [f"{FIRST}/metadata/annotations", {"new/er": "yes"}]]},
    "labels removed": {"remove": [f"{FIRST}/metadata/labels"]},
    "labels are null": {"set": [[f"{FIRST}/metadata/labels", None]]},
    "bad labels": {"set": [[f"{FIRST}/metadata/labels", {"a b": "c d"}]]},
    "bad label": {"set": [[f"{FIRST}/metadata/labels", {"a": "c d"}]]},
    "label is a number": {"set": [[f"{FIRST}/metadata/labels", {"a": 1}]]},
    "label is a float": {"set": [[f"{FIRST}/metadata/labels", {"a": 1.5}]]},
    "label is null": {"set": [[f"{FIRST}/metadata/labels", {"a": None}]]},
    "labels are a list": {"set": [[f"{FIRST}/metadata/labels", ["a"]]]},
    "bad annotation": {"set": [[f"{FIRST}/metadata/annotations", {"a b": "c"}]]},
    "annotation is true": {"set": [[f"{FIRST}/metadata/annotations", {"a": True}]]},
    "annotations are text": {"set": [[f"{FIRST}/metadata/annotations", "x"]]},
    "unknown field": {"set": [[f"{FIRST}/spec/unknown", 1]]},
    "field of another type": {"set": [[f"{FIRST}/spec/amount", "text"]]},
    "field with a default removed": {"remove": [f"{FIRST}/spec/color"]},
}

CASES = {
    "get": [defined(), create("v1", "a", {"size": 1}, labels={"old": "yes"}), get("v2", "/a"), get("v1", "/a"),
            get("v2", "/a", **METADATA), get("v2", "/a", **TABLE), get("v2", "/none")],
    "write in the other version": [
        defined(), create("v2", "b", {"amount": {"value": 2}, "odd": 1}), get("v1", "/b"),
        patch("v2", "/b", {"spec": {"amount": {"value": 3}}}, MERGE), get("v1", "/b"),
        ask("PUT", things("v2", "/b"), thing("v2", "b", {"amount": {"value": 4}})),
        patch("v2", "/b?fieldManager=m&force=true", thing("v2", "b", {"amount": {"value": 5}}), APPLY), get("v1", "/b"),
        patch("v2", "/b/status", {"status": {"replicas": 7}}, MERGE), get("v2", "/b/scale"),
        patch("v2", "/b/scale", {"spec": {"replicas": 3}}, MERGE), get("v1", "/b"), get("v2", "/b/scale"),
        ask("DELETE", things("v2", "/b")), get("v1", "/b")],
    "managed fields of two versions": [
        defined(), create("v2", "b", {"amount": {"value": 2}}),
        patch("v1", "/b?fieldManager=one", thing("v1", "b", {"note": "x"}), APPLY),
        patch("v1", "/b?fieldManager=one", thing("v1", "b", {"size": 9}), APPLY),
        patch("v1", "/b?fieldManager=one&force=true", thing("v1", "b", {"size": 9}), APPLY),
        patch("v2", "/b?fieldManager=one", thing("v2", "b", {"color": "red"}), APPLY),
        patch("v2", "/b?fieldManager=two", thing("v2", "b", {"note": "y"}), APPLY),
        patch("v1", "/b?fieldManager=two", thing("v1", "b", {"size": 3}), APPLY),
        patch("v2", "/b?fieldManager=two", thing("v2", "b", {}), APPLY),
        get("v1", "/b")],
    "managed fields while the webhook fails": [
        defined(), create("v2", "b", {"amount": {"value": 2}}), webhook(**FAILED),
        patch("v1", "/b?fieldManager=one", thing("v1", "b", {"note": "x"}), APPLY),
        patch("v1", "/b", {"spec": {"note": "z"}}, MERGE)],
    "a list": [
        defined(), create("v1", "a", {"size": 1, "note": "x"}), create("v2", "b", {"amount": {"value": 2}}),
        create("v1", "c", {"size": 3}, labels={"l": "c"}), get("v2", ""), get("v1", ""), get("v2", "?limit=2"),
        get("v2", "?labelSelector=l%3Dc"), get("v2", "?fieldSelector=spec.note%3Dx"), get("v2", "", **TABLE),
        ask("DELETE", things("v2", "?labelSelector=l%3Dc")), ask("DELETE", things("v2")), get("v1", "")],
    "selectors see the converted object": [
        defined(), webhook(to="/v2", set=[[f"{FIRST}/metadata/labels", {"version": "two"}], [f"{FIRST}/spec/note", "two"]]),
        create("v1", "a", {"size": 1, "note": "one"}, labels={"version": "one"}),
        get("v2", "?labelSelector=version%3Dtwo"), get("v2", "?labelSelector=version%3Done"),
        get("v1", "?labelSelector=version%3Done"), get("v2", "?fieldSelector=spec.note%3Dtwo"),
        get("v2", "?fieldSelector=spec.note%3Done")],
    "a watch": [
        defined(), create("v1", "a", {"size": 1}), create("v2", "b", {"amount": {"value": 2}}),
        {"watch": things("v2", "?watch=1"), "events": 2},
        {"watch": things("v2", "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"),
         "events": 3}],
    "a list while the webhook fails": [
        defined(), webhook(**FAILED), create("v1", "a", {"size": 1}), get("v2", ""), get("v1", ""), get("v2", "", **TABLE),
        get("v2", "?limit=1"), ask("DELETE", things("v2")), get("v1", ""), get("v2", "/a", **METADATA), get("v2", "/a/scale")],
    "a watch while the webhook fails": [
        defined(), create("v1", "a", {"size": 1}), get("v2", "/a"), webhook(**FAILED), create("v1", "b", {"size": 1}),
        {"watch": things("v2", "?watch=1"), "events": 1}],
    "a watch that goes on when the webhook works again": [
        defined(), create("v1", "a", {"size": 1}), get("v2", "/a"), webhook(**FAILED), create("v1", "b", {"size": 1}),
        {"watch": things("v2", "?watch=1&resourceVersion={version}"), "events": 0}, webhook(),
        {"watch": things("v2", "?watch=1&resourceVersion={version}"), "events": 1}],
    "writes while the webhook fails": [
        defined(), create("v1", "a", {"size": 1}), get("v2", "/a"), webhook(**FAILED),
        create("v2", "c", {"amount": {"value": 3}}), get("v1", "/c"),
        patch("v2", "/a", {"spec": {"note": "x"}}, MERGE),
        patch("v2", "/a?fieldManager=m", thing("v2", "a", {"note": "y"}), APPLY),
        patch("v2", "/n?fieldManager=m", thing("v2", "n", {"note": "y"}), APPLY),
        ask("PUT", things("v2", "/a"), thing("v2", "a", {"note": "x"}, resourceVersion="{version}")),
        patch("v2", "/a/status", {"status": {"replicas": 3}}, MERGE),
        patch("v2", "/a/scale", {"spec": {"replicas": 3}}, MERGE),
        create("v2", "d?", {"amount": {"value": "text"}}), get("v1", "/a")],
    "a deletion while the webhook fails": [
        defined(), webhook(**FAILED), create("v1", "a", {"size": 1}), ask("DELETE", things("v2", "/a")),
        ask("DELETE", things("v2", "/a?dryRun=All")), get("v1", "/a"), ask("DELETE", things("v1", "/a")), get("v1", "/a")],
    "a write that cannot be shown": [
        defined(), webhook(to="/v2", **FAILED), create("v2", "z", {"amount": {"value": 3}}), get("v1", "/z"),
        create("v2", "y?dryRun", {"amount": {"value": 3}})],
    "a dry run": [
        defined(), ask("POST", things("v2", "?dryRun=All"), thing("v2", "a", {"amount": {"value": 1}})),
        create("v2", "b", {"amount": {"value": 1}}), patch("v2", "/b?dryRun=All", {"spec": {"note": "x"}}, MERGE),
        ask("DELETE", things("v2", "/b?dryRun=All")), get("v1", ""), webhook(**FAILED),
        ask("POST", things("v2", "?dryRun=All"), thing("v2", "c", {"amount": {"value": 1}}))],
    "finalizers": [
        defined(), create("v2", "a", {"amount": {"value": 1}}, finalizers=["example.com/f"]),
        ask("DELETE", things("v2", "/a")), get("v1", "/a"), patch("v2", "/a", {"metadata": {"finalizers": None}}, MERGE),
        get("v1", "/a")],
    "nobody listens": [
        defined(["/spec/conversion/webhook/clientConfig/url", "https://127.0.0.1:9/convert"]), create("v1", "a", {"size": 1}),
        get("v2", "/a")],
    "reviews of v1beta1": [
        defined(["/spec/conversion/webhook/conversionReviewVersions", ["v9", "v1beta1", "v1"]]), create("v1", "a", {"size": 1}),
        create("v1", "b", {"size": 1}), get("v2", "/a"), webhook(set=[["/response/uid", "other"]]), get("v2", "/b"),
        create("v1", "c", {"size": 1}), webhook(set=[["/kind", "Other"]]), get("v2", "/c"),
        webhook(remove=["/apiVersion", "/kind"]), get("v2", "/c"), create("v1", "d", {"size": 1}),
        webhook(set=[["/apiVersion", "apiextensions.k8s.io/v1"]]), get("v2", "/d"), webhook(remove=["/response"]), get("v2", "/d"),
        webhook(remove=["/response/result"]), get("v2", "/d")],
    "the storage version changes": [
        defined(), create("v1", "a", {"size": 1}), create("v2", "b", {"amount": {"value": 2}}),
        {"redefine": [["/spec/versions/0/storage", False], ["/spec/versions/1/storage", True]]},
        create("v1", "c", {"size": 3}), create("v2", "d", {"amount": {"value": 4}}), webhook(**FAILED),
        get("v2", "/b"), get("v1", "/b"), get("v2", "/d"), get("v1", "/d"), webhook(), get("v1", ""), get("v2", ""),
        ask("GET", CRDS + "/things.{g}", only="/status/storedVersions"),
        patch("v2", "/a", {"spec": {"note": "x"}}, MERGE), get("v1", "/a")],
    "the webhook goes away": [
        defined(), create("v1", "a", {"size": 1}), get("v2", "/a"),
        {"redefine": [["/spec/conversion", {"strategy": "None"}]]}, get("v2", "/a"), get("v1", "/a"),
        {"redefine": [["/spec/conversion", definition([])["spec"]["conversion"]]]}, get("v2", "/a")],
    "a stored version that is gone": [
        defined(), create("v1", "a", {"size": 1}),
        {"redefine": [["/spec/versions/0/storage", False], ["/spec/versions/1/storage", True]]},
        ask("PATCH", CRDS + "/things.{g}/status", {"status": {"storedVersions": ["v2"]}}, only="/status/storedVersions", **MERGE),
        {"redefine": [["/spec/versions", [definition([])["spec"]["versions"][1] | {"storage": True}]]]},
        get("v2", "/a"), get("v2", "")],
    "unserved storage version": [
        defined(["/spec/versions/0/served", False]), create("v2", "a", {"amount": {"value": 1}}), get("v2", "/a"), get("v1", "/a"),
        get("v2", "")],
    "defaults": [
        defined(), create("v1", "a", {"size": 1, "color": None}), get("v2", "/a"), create("v2", "b", {}), get("v1", "/b"),
        webhook(to="/v1", remove=[f"{FIRST}/spec/color"]), create("v2", "c", {}), get("v1", "/c")],
    "a slow webhook": [defined(), create("v1", "a", {"size": 1}), webhook(slow=32), get("v2", "/a")],
}
for what, mode in WRONG.items():
    CASES[f"wrong: {what}"] = [defined(), create("v1", "a", {"size": 1}, labels={"old": "yes"}), webhook(**mode), get("v2", "/a")]
for what in ["no objects", "failure", "another name", "labels removed", "500 as text"]:
    CASES[f"wrong in a list: {what}"] = [
        defined(), webhook(**WRONG[what]), create("v1", "a", {"size": 1}), create("v1", "b", {"size": 1}), get("v2", "")]
for what, edits in {
    "no client config": [["/spec/conversion/webhook/clientConfig", None]],
    "no review versions": [["/spec/conversion/webhook/conversionReviewVersions", []]],
    "unknown review versions": [["/spec/conversion/webhook/conversionReviewVersions", ["v9"]]],
    "bad review version": [["/spec/conversion/webhook/conversionReviewVersions", ["v1", "-"]]],
    "url and service": [["/spec/conversion/webhook/clientConfig/service", {"namespace": "a", "name": "b"}]],
    "no url, no service": [["/spec/conversion/webhook/clientConfig", {}]],
    "plain http": [["/spec/conversion/webhook/clientConfig/url", "http://127.0.0.1/convert"]],
    "url with a query": [["/spec/conversion/webhook/clientConfig/url", "https://127.0.0.1/convert?a=b"]],
    "bad port": [["/spec/conversion/webhook/clientConfig", {"service": {"namespace": "a", "name": "b", "port": 0}}]],
    "bad path": [["/spec/conversion/webhook/clientConfig", {"service": {"namespace": "a", "name": "b", "path": "c//d"}}]],
    "bad bundle": [["/spec/conversion/webhook/clientConfig/caBundle", "bm9uc2Vuc2U="]],
    "webhook with None": [["/spec/conversion/strategy", "None"]],
    "another strategy": [["/spec/conversion/strategy", "Magic"]],
}.items():
    CASES[f"refused: {what}"] = [ask("POST", CRDS, definition(edits), only="/message")]


class Recorder:
    def __init__(self, cluster, hook, authority):
        self.cluster, self.hook, self.authority = cluster, hook, authority
        self.group, self.version = "", ""

    def filled(self, value):
        text = json.dumps(value).replace("{g}", self.group).replace("{hook}", f"127.0.0.1:{HOOK_PORT}")
        return json.loads(text.replace("{ca}", self.authority).replace("{version}", self.version))

    def plain(self, value):
        """What differs from run to run is replaced by words."""
        text = json.dumps(value).replace(self.group, "{g}").replace(f"127.0.0.1:{HOOK_PORT}", "{hook}")
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "{uid}", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "{time}", text)
        text = re.sub(r'"\d{1,2}s"', '"{age}"', text)
        text = re.sub(r'"(resourceVersion|continue)": "[^"]+"', r'"\1": "{version}"', text)
        # Two timers end at the same time; either may give the error its words.
        text = text.replace("context deadline exceeded (Client.Timeout exceeded while awaiting headers)", "context deadline exceeded")
        text = re.sub(r"version: \d+, current: \d+", "version: {version}, current: {version}", text)
        return json.loads(text)

    def served(self):
        for _ in range(200):
            path = self.filled(things("v2", "/none"))
            code, body = self.cluster.call("GET", path)
            if code == 404 and isinstance(body, dict) and body.get("reason") == "NotFound" and body.get("details", {}).get("name"):
                return
            time.sleep(0.05)

    def step(self, step):
        if "define" in step:
            code, body = self.cluster.call("POST", CRDS, self.filled(step["define"]))
            assert code == 201, body
            self.served()
            time.sleep(2 * SETTLE_SECONDS)
        elif "redefine" in step:
            path = self.filled(CRDS + "/things.{g}")
            changed = self.cluster.call("GET", path)[1]
            for pointer, value in self.filled(step["redefine"]):
                edit(changed, pointer, value)
            code, body = self.cluster.call("PUT", path, changed)
            assert code == 200, body
            time.sleep(4 * SETTLE_SECONDS)
            self.served()
            time.sleep(2 * SETTLE_SECONDS)
        elif "webhook" in step:
            self.hook.mode = self.filled(step["webhook"])
        elif "watch" in step:
            code, events, ended = self.cluster.watch(self.filled(step["watch"]), 5)
            return {"code": code, "events": [self.plain(event) for event in events], "ended": ended}
        else:
            code, body = self.cluster.call(step["method"], self.filled(step["path"]), self.filled(step["body"]), step["headers"])
            if isinstance(body, dict) and "resourceVersion" in body.get("metadata", {}):
                self.version = body["metadata"]["resourceVersion"]
            if step["method"] != "GET":
                time.sleep(SETTLE_SECONDS)
            for part in step.get("only", "").split("/")[1:]:
                body = body.get(part) if isinstance(body, dict) else None
            return {"code": code, "body": self.plain(body)}
        return None

    def record(self, number, steps):
        self.group, self.version, self.hook.mode = f"c{number}.example.com", "", {}
        recorded = []
        for step in steps:
            answer = self.step(step)
            recorded.append(step if answer is None else {**step, "answer": answer})
        return recorded


def record(cluster, hook, authority):
    recorder = Recorder(cluster, hook, authority)
    recorded = {}
    for number, (name, steps) in enumerate(CASES.items()):
        recorded[name] = recorder.record(number, copy.deepcopy(steps))
        print(name, flush=True)
    rows = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(step, sort_keys=True) for step in steps) + "\n]"
            for name, steps in recorded.items()]
    os.makedirs(os.path.dirname(RECORDED), exist_ok=True)
    with open(RECORDED, "w") as file:
        file.write("{\n" + ",\n".join(rows) + "\n}\n")


def bench(cluster, hook, authority):
    """Times the first list of all objects after the definition has changed, so that every object is converted."""
    count, recorder = 5_000, Recorder(cluster, hook, authority)
    recorder.group = f"bench{int(time.time())}.example.com"
    recorder.step(defined())
    connection = None
    for index in range(count):
        body = recorder.filled(thing("v1", f"t{index:05}", {"size": index, "note": "x" * 700}))
        path = recorder.filled(things("v1"))
        connection = connection or http.client.HTTPSConnection(cluster.host, cluster.port, context=cluster.context)
        sent = {"content-type": "application/json"} | ({"authorization": f"Bearer {cluster.token}"} if cluster.token else {})
        connection.request("POST", path, json.dumps(body), sent)
        response = connection.getresponse()
        assert response.status == 201, response.read()
        response.read()
    for attempt in range(3):
        path = recorder.filled(CRDS + "/things.{g}")
        changed = cluster.call("GET", path)[1]
        edit(changed, "/spec/conversion/webhook/clientConfig/url", f"https://127.0.0.1:{HOOK_PORT}/convert{attempt}")
        time.sleep(5)
        hook.calls, hook.objects = 0, 0
        assert cluster.call("PUT", path, changed)[0] == 200
        began = time.monotonic()
        # Kubernetes refuses lists until its cache has begun to be filled anew, or answers them with the old one.
        while True:
            code, body = cluster.call("GET", recorder.filled(things("v2")))
            if code == 200 and len(body["items"]) == count and hook.objects >= count:
                break
        took = time.monotonic() - began
        print(f"list of {count}: {took:.2f} s, {hook.calls} calls of the webhook with {hook.objects} objects", flush=True)


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else "record"
    with tempfile.TemporaryDirectory() as work:
        cluster = Remote(sys.argv[2], work) if len(sys.argv) > 2 else Cluster(work)
        try:
            hook = Webhook(work)
            with open(f"{work}/hook.crt", "rb") as file:
                authority = base64.b64encode(file.read()).decode()
            {"record": record, "bench": bench}[what](cluster, hook, authority)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
