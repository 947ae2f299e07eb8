#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# metrics_text.py FILE: FILE is OpenMetrics to the letter, and says what it promises: every family
# has a help and a type, every label is one of those that are bounded, no name is used twice.
# metrics_text.py FILE --names FILES...: every metric that FILES name is in FILE.
# metrics_text.py FILE --manual PAGE: rdmad-metrics(7) names every metric of FILE, and no other, each with
# its labels where FILE has a sample of it.
# metrics_text.py FILE --value NAME LABEL=VALUE...: the sum of its samples, 0 if there are none.
import re
import sys

LABELS = {"op", "route", "cause", "event", "uid", "peer", "resource", "device", "port", "counter", "le",
          "version", "node", "fabric", "thread"}
UNITS = ("seconds", "bytes")
NAME = r"[a-z_][a-z0-9_]*"
SAMPLE = re.compile(r'^(%s)(?:\{(.*)\})? (\S+)$' % NAME)
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"counter": ["_total"], "gauge": [""], "info": ["_info"], "unknown": [""],
            "histogram": ["_bucket", "_sum", "_count"]}


def fail(*words):
    sys.exit("FAILED: " + " ".join(str(w) for w in words))


def labels_of(text, where):
    at, found = 0, {}
    while text and at < len(text):
        m = LABEL.match(text, at)
        if not m:
            fail(where, "has a label that cannot be read:", text[at:])
        if m[1] in found:
            fail(where, "has a label twice:", m[1])
        if m[1] not in LABELS:
            fail(where, "has a label that nobody bounds:", m[1])
        found[m[1]] = m[2]
        at = m.end()
    return found


def read(path):
    """Families: name -> (type, unit, [(sample, labels, value)])."""
    lines = open(path).read().split("\n")
    if lines[-2:] != ["# EOF", ""] or "# EOF" in lines[:-2]:
        fail("it does not end with # EOF, once")
    families, name, seen = {}, None, set()
    for line in lines[:-2]:
        word = line.split(" ", 3)
        if line.startswith("# HELP "):
            name = word[2]
            if name in families or len(word) < 4:
                fail("twice, or without words:", line)
            families[name] = [None, None, []]
        elif line.startswith("# TYPE "):
            if word[2] != name or families[name][0] or word[3] not in SUFFIXES:
                fail("a type out of place:", line)
            families[name][0] = word[3]
        elif line.startswith("# UNIT "):
            if word[2] != name or not name.endswith("_" + word[3]) or families[name][2]:
                fail("a unit out of place:", line)
            families[name][1] = word[3]
        else:
            m = SAMPLE.match(line)
            kind = families[name][0] if m and name else None
            if not kind or m[1] not in [name + s for s in SUFFIXES[kind]]:
                fail("no sample of", name, ":", line)
            found = labels_of(m[2], line)
            key = (m[1], tuple(sorted(found.items())))
            if key in seen:
                fail("twice:", line)
            seen.add(key)
            families[name][2].append((m[1], found, float(m[3])))
    for name, (kind, unit, _) in families.items():
        if not kind:
            fail("no type:", name)
        if name.endswith(("_total", "_info", "_count", "_sum", "_bucket")):
            fail("a family's name ends like a sample's:", name)
        for u in UNITS:
            if name.endswith("_" + u) and unit != u:
                fail("no unit:", name)
    return families


def check_histogram(name, samples):
    rows = {}
    for sample, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        rows.setdefault(key, []).append((sample, labels.get("le"), value))
    for key, row in rows.items():
        buckets = [(float(le), v) for s, le, v in row if s.endswith("_bucket")]
        count = [v for s, _, v in row if s.endswith("_count")]
        total = [v for s, _, v in row if s.endswith("_sum")]
        if buckets != sorted(buckets) or [v for _, v in buckets] != sorted(v for _, v in buckets):
            fail(name, key, "does not count up")
        if buckets[-1][0] != float("inf") or count != [buckets[-1][1]] or len(total) != 1:
            fail(name, key, "does not end with all of them")


def samples_of(families):
    return {n + s for n, (kind, _, _) in families.items() for s in SUFFIXES[kind]}


def manual(families, page):
    """An entry of the page is a line that begins with *NAME*{_LABEL_, ...}, and may have several, with commas."""
    have = {n + ("" if kind == "histogram" else SUFFIXES[kind][0]): {frozenset(labels) - {"le"} for _, labels, _ in rows}
            for n, (kind, _, rows) in families.items()}
    told = {}
    for line in open(page).read().split("\n"):
        for name, labels in re.findall(r"\*(%s)\*(?:\{([^}]*)\})?" % NAME, line) if line.startswith("*") else []:
            if name.startswith(("rdmad_", "process_")):
                if name in told:
                    fail("rdmad-metrics(7) has it twice:", name)
                told[name] = frozenset(re.findall(r"_([a-z]+)_", labels))
    if set(have) - set(told):
        fail("rdmad-metrics(7) does not have:", *sorted(set(have) - set(told)))
    if set(told) - set(have):
        fail("rdmad-metrics(7) has what is not written:", *sorted(set(told) - set(have)))
    for name, seen in have.items():
        for labels in seen:
            if labels - {"tenant"} != told[name]:
                fail(name, "has the labels", sorted(labels), "and in rdmad-metrics(7)", sorted(told[name]))
    print(len(told), "metrics in the page,", sum(bool(v) for v in have.values()), "of them with their labels")


def main():
    families = read(sys.argv[1])
    if len(sys.argv) < 3:
        for name, (kind, _, samples) in families.items():
            if kind == "histogram":
                check_histogram(name, samples)
            if kind == "counter" and any(v < 0 for _, _, v in samples):
                fail(name, "is below zero")
        print(len(families), "families")
        sys.path.append("/usr/lib/python3/dist-packages")  # Debian's, whichever Python this is
        try:
            from prometheus_client.openmetrics import parser
        except ImportError:
            print("skipped: python3-prometheus-client is not installed, so no parser of somebody else's looks")
            return
        known = {f.name for f in parser.text_string_to_metric_families(open(sys.argv[1]).read())}
        if known != set(families):
            fail("another parser sees other families:", known ^ set(families))
    elif sys.argv[2] == "--names":
        have, named = samples_of(families), set()
        for path in sys.argv[3:]:
            named |= set(re.findall(r"\b(?:rdmad|process)_[a-z0-9_]+\b", open(path).read()))
        if not named or named - have:
            fail("there is no such metric:", *sorted(named - have))
        print(len(named), "names")
    elif sys.argv[2] == "--manual":
        manual(families, sys.argv[3])
    elif sys.argv[2] == "--value":
        wanted = dict(a.split("=", 1) for a in sys.argv[4:])
        print("%.12g" % sum(v for _, (_, _, rows) in families.items() for s, labels, v in rows
                          if s == sys.argv[3] and wanted.items() <= labels.items()))


main()
