#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""trace_raw.py SOCKET: a tracer that does not behave, at a control.sock; each line of input is one step.

    begin [PARAMS]   asks for a trace, and says what was answered
    more             reads on once
    all              reads on until there is no more; says how many ops came, and how many were dropped
    flood            asks a thousand times and reads no answer
    dial             leaves, and comes anew
"""
import json
import socket
import sys


class Tracer:
    def __init__(self, path):
        self.path = path
        self.dial()

    def dial(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path)
        self.lines = self.socket.makefile()

    def ask(self, params):
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "trace", "params": params})
        self.socket.sendall(line.encode() + b"\n")
        answer = json.loads(self.lines.readline())
        return answer.get("result") or {"error": answer["error"]["data"]["text"]}

    def everything(self):
        count, sessions, times = 0, set(), []
        while True:
            answer = self.ask({"more": True})
            count += len(answer["ops"])
            sessions |= {op["session"] for op in answer["ops"]}
            times += [op["time_us"] for op in answer["ops"]]
            if not answer["more"]:
                return {"count": count, "dropped": answer["dropped"], "sessions": len(sessions),
                        "in_order": times == sorted(times)}

    def flood(self):
        self.socket.settimeout(0.5)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "trace", "params": {"more": True}}).encode() + b"\n"
        try:
            for _ in range(1000):
                self.socket.sendall(line)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        return {}

    def step(self, word, rest):
        if word == "begin":
            return self.ask(json.loads(rest) if rest else {})
        if word == "more":
            return self.ask({"more": True})
        if word == "all":
            return self.everything()
        if word == "flood":
            return self.flood()
        self.socket.close()
        self.dial()
        return {}


tracer = Tracer(sys.argv[1])
for step in sys.stdin:
    print(json.dumps(tracer.step(*(step.strip() + " ").split(" ", 1))), flush=True)
