#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""schemas.py SCHEMAS USAGE SAID: what rdmactl -j printed is what its schemas say.

SCHEMAS is the directory of schemas, USAGE what rdmactl --help prints, and SAID a file in which each document that
was printed has a line: WHEN, the command's words, its exit code and the document, with tabs between.

Each command of USAGE has a schema; each schema is valid, closed, and has a description for each field; each document
follows its command's, or that of errors if the command failed; and each field was seen, so that a test like this one
does not end up looking at empty lists.

schemas.py SCHEMAS COMMAND <DOCUMENT judges one document.
"""
import json
import pathlib
import re
import sys

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

# Fields that no scenario on this machine has, and who sees them.
ELSEWHERE = {
    "device-show": (r"devices\[\]\..*", "test_verbs_start looks at devices, in the guest"),
    "limit-set": (r"note", "test_verbs_start sets a peer's share there"),
    "limit-show": (r"note", "test_verbs_start again"),
    "lease-show": (r"leases\[\]\.part_of", "test_lease_complete has parts"),
    "service-show": (r"services\[\]\.budget\..*", "test_lease_complete has budgets"),
    "status": (r"silent_threads\[\]\..*", "test_service has a worker that hangs"),
    "channel-show": (r"channels\[\]\.(why|reason)", "test_channels has channels that end, and wait"),
}
ANYWHERE = {"truncated": "there are no 16384 rows, nor 256 sentences", "reload_error": "test_cluster has a daemon that refuses"}

# In common.json, for others that add to them and close them.
OPEN = ("session", "user", "link", "certificate")


class Schemas:
    def __init__(self, directory):
        self.wrong, self.seen, self.own = [], {}, {}
        common = json.loads((directory / "common.json").read_text())["$defs"]
        self.schema = {}
        for path in sorted(directory.glob("*.json")):
            self.own[path.stem] = json.loads(path.read_text())
            # As if each schema had all that is common in itself.
            whole = json.loads(path.read_text().replace('"common.json#/', '"#/'))
            own = whole.setdefault("$defs", {})
            if path.stem != "common" and own.keys() & common.keys():
                self.say(f"{path.name}: {', '.join(own.keys() & common.keys())} is in common.json, too")
            whole["$defs"] = {**common, **own}
            self.schema[path.stem] = whole

    def say(self, text):
        self.wrong.append(text)

    def named(self, words):
        """The schema of a command: that of its two words, or that of all with its first."""
        for name in ("-".join(words), words[0]):
            if name in self.schema and name not in ("common", "error"):
                return name
        return None

    # ---- of the schemas themselves

    def check_each(self):
        for name, schema in self.schema.items():
            Draft202012Validator.check_schema(schema)
            self.check_part(f"{name}.json", "the document", self.own[name])

    def check_part(self, where, name, part):
        """name: what part is of."""
        if isinstance(part, list):
            for one in part:
                self.check_part(where, name, one)
        if not isinstance(part, dict):
            return
        closed = "additionalProperties" in part or "unevaluatedProperties" in part
        if part.get("type") == "object" and not closed and name not in OPEN:
            self.say(f"{where}: {name} takes any field: \"additionalProperties\": false is missing")
        if str(part.get("$ref", "")).rsplit("/", 1)[-1] in OPEN and not closed:
            self.say(f"{where}: {name} takes any field: \"unevaluatedProperties\": false is missing")
        fields = part.get("properties", {})
        for key in set(part.get("required", ())) - fields.keys() if "$ref" not in part else ():
            self.say(f"{where}: {name} requires {key}, and does not say what that is")
        for key, field in fields.items():
            if "$ref" not in field and "description" not in field:
                self.say(f"{where}: {name}.{key} has no description")
            self.check_part(where, key, field)
        for key, inner in part.items():
            if key == "$defs":
                for one, what in inner.items():
                    self.check_part(where, one, what)
            elif key != "properties":
                self.check_part(where, name, inner)

    def check_usage(self, usage):
        """Each command has a schema, and each schema a command. Returns the commands."""
        # Objects, and at most one verb, then two blanks and what it does.
        commands = [tuple(c.split()) for c in re.findall(r"^  ([a-z]+(?: [a-z]+)?)\s+[A-Z]", usage, re.MULTILINE)]
        if len(commands) < 30:
            self.say(f"rdmactl --help lists {len(commands)} commands: it is read wrongly")
        for words in commands:
            if not self.named(words):
                self.say(f"rdmactl {' '.join(words)} has no schema: rdmactl/schema/{'-'.join(words)}.json is missing")
        for name in self.schema.keys() - {self.named(w) for w in commands} - {"common", "error"}:
            self.say(f"{name}.json is of no command of rdmactl")
        return commands

    # ---- of what was said

    def judge(self, when, words, code, text):
        name = self.named(words)
        try:
            document = json.loads(text)
        except ValueError as e:
            return self.say(f"rdmactl -j {' '.join(words)}, {when}: not one JSON document ({e}): {text[:200]}")
        if code and isinstance(document, dict) and set(document) <= {"schema", "error"}:
            name = "error"
        if not name:
            return None  # check_usage has said it
        worst = best_match(Draft202012Validator(self.schema[name]).iter_errors(document))
        if worst:
            at = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in worst.absolute_path) or "the document"
            return self.say(f"rdmactl -j {' '.join(words)}, {when}: {at.lstrip('.')}: {worst.message[:300]}. A field that is new is "
                            f"described in rdmactl/schema/{name}.json; one that goes, or means something else, needs another "
                            "\"schema\" number")
        self.note(name, self.schema[name], self.schema[name], document, "")
        return None

    def note(self, name, root, schema, value, at):
        """Which fields were there."""
        if "$ref" in schema:
            self.note(name, root, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, at)
        for one in schema.get("oneOf", ()):
            self.note(name, root, one, value, at)
        if isinstance(value, list):
            for one in value:
                self.note(name, root, schema.get("items", {}), one, at + "[]")
        if isinstance(value, dict):
            for key, field in schema.get("properties", {}).items():
                if key in value:
                    self.seen.setdefault(name, set()).add(f"{at}.{key}".lstrip("."))
                    self.note(name, root, field, value[key], f"{at}.{key}")

    def fields(self, root, schema, at=""):
        if "$ref" in schema:
            yield from self.fields(root, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], at)
        for one in schema.get("oneOf", ()):
            yield from self.fields(root, one, at)
        if "items" in schema:
            yield from self.fields(root, schema["items"], at + "[]")
        for key, field in schema.get("properties", {}).items():
            yield f"{at}.{key}".lstrip(".")
            yield from self.fields(root, field, f"{at}.{key}")

    def check_seen(self):
        for name, schema in self.schema.items():
            if name == "common":
                continue
            elsewhere, _ = ELSEWHERE.get(name, ("", ""))
            unseen = {f for f in self.fields(schema, schema) if f not in self.seen.get(name, ()) and
                      f not in ANYWHERE and not re.fullmatch(elsewhere, f)}
            if unseen:
                self.say(f"{name}.json: the test saw no {', '.join(sorted(unseen))}")


def main():
    schemas = Schemas(pathlib.Path(sys.argv[1]))
    if len(sys.argv) == 3:
        schemas.judge("here", sys.argv[2].split("-"), 0, sys.stdin.read())
    else:
        schemas.check_each()
        schemas.check_usage(pathlib.Path(sys.argv[2]).read_text())
        for line in pathlib.Path(sys.argv[3]).read_text().splitlines():
            when, words, code, text = line.split("\t", 3)
            schemas.judge(when, words.split(), int(code), text)
        schemas.check_seen()
    for text in schemas.wrong[:20]:
        print(f"FAILED: {text}")
    return bool(schemas.wrong)


if __name__ == "__main__":
    sys.exit(main())
