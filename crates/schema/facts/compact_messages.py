#!/usr/bin/env python3
"""Makes the compact wire facts from recorded ones: compact_messages.py PROTOBUF.tsv OUT.txt

One block for each message, its fields in the order of the Go struct:
    =NAME
    NUMBER FIELD TYPE FLAGS
FIELD is `-` where the field is inlined into its parent. TYPE is a scalar or `@` and a message (`@.Name` is in the
package of the message itself, `@meta.` and `@core.` are short for the two that are used most), with `[]` or `{}`
before it for a list or a map with string keys. FLAGS: o omitted when empty, p pointer, i inlined.
"""
import csv, sys

SHORT = {"k8s.io.apimachinery.pkg.apis.meta.v1.": "@meta.", "k8s.io.api.core.v1.": "@core."}


def kind(package, name):
    if "." not in name:
        return name
    if name.rsplit(".", 1)[0] == package:
        return "@." + name.rsplit(".", 1)[1]
    for long, short in SHORT.items():
        if name.startswith(long):
            return short + name[len(long):]
    return "@" + name


def main(source, out):
    blocks = {}
    for row in csv.DictReader(open(source), delimiter="\t"):
        package = row["message"].rsplit(".", 1)[0]
        types = row["type"].split(",")
        prefix = {"one": "", "repeated": "[]", "map": "{}"}[row["cardinality"]]
        flags = ("o" if row["omitempty"] == "omitempty" else "") + ("p" if row["pointer"] == "pointer" else "")
        flags += "i" if row["inline"] else ""
        line = f'{row["number"]} {row["field"] or "-"} {prefix}{kind(package, types[-1])} {flags}'.rstrip()
        blocks.setdefault(row["message"], []).append(line)
    with open(out, "w") as f:
        for name in sorted(blocks):
            f.write("=" + name + "\n" + "\n".join(blocks[name]) + "\n")


main(*sys.argv[1:])
