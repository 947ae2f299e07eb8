# SPDX-License-Identifier: MIT
"""top_door.py: a control.sock of a test's own, at which rdmactl top looks; to be imported."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time


def fail(text):
    sys.exit(f"FAILED: {text}")


def line_of(connection):
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 20)
        if not more:
            return None
        data += more
    return data


class Refused:
    """An answer that a daemon gives to a parameter that it does not know."""


def said(answer):
    if answer is Refused:
        return {"error": {"code": -32602, "message": "Invalid params", "data": {"code": "RDMAD_E_INVAL", "text": "unknown parameter"}}}
    return {"result": answer}


class Door:
    """A control.sock that says answer(request, how often that was asked before)."""

    def __init__(self, rdmactl, answer):
        self.rdmactl, self.answer, self.asked = rdmactl, answer, {}
        self.directory = tempfile.TemporaryDirectory(prefix="rdmad-test.")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(self.directory.name, "control.sock"))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                line = line_of(connection)
                if line:
                    request = json.loads(line)
                    times = self.asked.setdefault(request["method"], 0)
                    self.asked[request["method"]] += 1
                    answer = {"jsonrpc": "2.0", "id": request["id"], **said(self.answer(request, times))}
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    def top(self, *options):
        self.asked.clear()
        done = subprocess.run([self.rdmactl, "-d", self.directory.name, *options, "-n", "1", "-i", "100ms"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            fail(f"{options}: {done.stdout}{done.stderr}")
        return done.stdout


class Real:
    """Answers as the daemon in DIRECTORY does. Before the second answer to method COMMAND has run; looks are the answers to it."""

    def __init__(self, directory, method, command):
        self.directory, self.method, self.command, self.looks = directory, method, command, []

    def ask(self, request):
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(os.path.join(self.directory, "control.sock"))
            there.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(line_of(there))["result"]

    def sessions(self):
        return len(self.ask({"jsonrpc": "2.0", "id": 1, "method": "session.show"})["sessions"])

    def run(self):
        """The daemon notices a moment later that the program has gone."""
        before = self.sessions()
        subprocess.run(self.command, stdout=subprocess.DEVNULL, check=True)
        for _ in range(1000):
            if self.sessions() == before:
                return
            time.sleep(0.02)

    def __call__(self, request, times):
        if request["method"] == self.method and times == 1:
            self.run()
        result = self.ask(request)
        if request["method"] == self.method:
            self.looks.append(result)
        return result
