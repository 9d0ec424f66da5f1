#!/usr/bin/env python3
"""Makes the compact facts from recorded ones: compact.py RESOURCES.json SCHEMAS.json OUT_DIR

resources.txt, one block for each resource (`-` is the empty string, `*` all eight verbs):
    resource GROUP VERSION PLURAL KIND SINGULAR SCOPE VERBS SHORT_NAMES CATEGORIES
     sub NAME KIND GROUP VERSION VERBS
     col PRIORITY TYPE FORMAT NAME

types.txt, one block for each type, sorted by name, so that a block is found by bisection:
    =NAME TOKENS          the type itself
     FIELD TOKENS         its properties, sorted
Tokens are read from left to right; `[]` and `{}` open the node of the items or of the map's values:
    string boolean integer number object int32 int64 double byte date-time     type (and format)
    @.Name @full.name     reference (`.` is the package of the type itself)
    oneof:a,b  format:f  default:JSON  enum:a,b  required:a,b  list:map:k1,k2  list:set  list:atomic
    map:atomic  patch:strategies:key  gvk:group/version/Kind,…  union:JSON
A space within an enum's value is written `~`. A gvk that follows from the type's name is written `gvk`.
"""
import json, sys

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
FORMATS = {"int32": "integer", "int64": "integer", "double": "number", "byte": "string", "date-time": "string"}


def verbs(v):
    return "*" if v == VERBS else ",".join(v) or "-"


def dash(s):
    return s or "-"


def resources(items):
    out = []
    for r in items:
        assert not r["responseGroup"] and not r["responseVersion"]
        out.append(" ".join(["resource", dash(r["group"]), r["version"], r["plural"], r["kind"], dash(r["singular"]),
            r["scope"], verbs(r["verbs"]), dash(",".join(r["shortNames"])), dash(",".join(r["categories"]))]))
        for s in r["subresources"]:
            out.append(" ".join([" sub", s["name"], s["kind"], dash(s["group"]), dash(s["version"]), verbs(s["verbs"])]))
        for c in r.get("columns", []):
            out.append(" ".join([" col", str(c["priority"]), c["type"], dash(c["format"]), c["name"]]))
    return "\n".join(out) + "\n"


def tokens(node, package, name):
    node = dict(node)
    out = []

    def compact(v):
        s = json.dumps(v, separators=(",", ":"))
        assert " " not in s, s
        return s

    node.pop("properties", None)
    if "gvk" in node:
        gvks = node.pop("gvk")
        derived = package_of_group(gvks[0][0]) + "." + gvks[0][1] + "." + gvks[0][2]
        out.append("gvk" if len(gvks) == 1 and derived == name else
                   "gvk:" + ",".join("/".join(g) for g in gvks))
    for key, word in (("enum", "enum"), ("required", "required")):
        if key in node:
            out.append(word + ":" + ",".join(v.replace(" ", "~") for v in node.pop(key)))
    if "default" in node:
        out.append("default:" + compact(node.pop("default")))
    if "listType" in node:
        keys = node.pop("listMapKeys", [])
        out.append("list:" + node.pop("listType") + (":" + ",".join(keys) if keys else ""))
    if "mapType" in node:
        out.append("map:" + node.pop("mapType"))
    if "patchStrategy" in node:
        key = node.pop("patchMergeKey", "")
        out.append("patch:" + node.pop("patchStrategy") + (":" + key if key else ""))
    if "unions" in node:
        out.append("union:" + compact(node.pop("unions")))
    if "oneOf" in node:
        out.append("oneof:" + ",".join(o["type"] for o in node.pop("oneOf")))
    kind, form = node.pop("type", None), node.pop("format", None)
    if form in FORMATS and FORMATS[form] == kind:
        out.append(form)
    else:
        if form:
            out.append("format:" + form)
        if kind and kind != "array" and not (kind == "object" and "additionalProperties" in node):
            out.append(kind)
    if "ref" in node:
        ref = node.pop("ref")
        out.append("@" + (ref[len(package):] if ref.startswith(package + ".") and "." not in ref[len(package) + 1:] else ref))
    if "items" in node:
        assert kind == "array"
        out += ["[]"] + tokens(node.pop("items"), package, None)
    if "additionalProperties" in node:
        assert kind == "object"
        out += ["{}"] + tokens(node.pop("additionalProperties"), package, None)
    assert not node, (name, node)
    return out


SPECIAL = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "internal.apiserver.k8s.io": "io.k8s.api.apiserverinternal",
}


def package_of_group(group):
    return SPECIAL.get(group, "io.k8s.api." + group.split(".")[0])


def types(items):
    out = []
    for name in sorted(items):
        t = items[name]
        package = name.rsplit(".", 1)[0]
        out.append(" ".join(["=" + name] + tokens(t, package, name)))
        for field in sorted(t.get("properties", {})):
            out.append(" ".join([" " + field] + tokens(t["properties"][field], package, None)))
    return "\n".join(out) + "\n"


def main():
    res, schemas, out = sys.argv[1:]
    with open(out + "/resources.txt", "w") as f:
        f.write(resources(json.load(open(res))))
    with open(out + "/types.txt", "w") as f:
        f.write(types(json.load(open(schemas))))


main()
