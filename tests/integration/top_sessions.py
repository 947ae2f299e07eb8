#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top_sessions.py RDMACTL DIRECTORY COMMAND...: rdmactl top of sessions, between whose looks something happens.

First a control.sock of this test's own answers twice with sessions whose numbers are made up: times are those of the ops
between the looks, not of all since the session began. Then it answers as an older daemon does, which knows no buckets. At
last what the daemon in DIRECTORY says is handed on, and COMMAND works between the looks."""
import json
import re
import sys

from top_door import Door, Real, Refused, fail

RDMACTL, DIRECTORY, COMMAND = sys.argv[1], sys.argv[2], sys.argv[3:]


def session(number, ops, took, **more):
    """took: {us: count} of all ops there were, or None: that is not told. lat_us is not what top goes by."""
    told = None if took is None else [{"us": us, "count": count} for us, count in sorted(took.items())]
    return {"id": number, "name": f"s{number}", "uid": 1000, "tenant": None, "gid": 0, "pid": 1, "state": "open", "age_s": 1, "pools": 0,
            "bytes": 0, "rings": 1, "leases": 0, "attaches": 0, "services": 0, "channels": 0, "ops": ops, "ops_inflight": 0,
            "ops_in_rings": 0, "ops_failed": 0, "bytes_read": 0, "bytes_written": 0, "weight": 100, "priority": 0,
            "bytes_per_second": 0, "ops_per_second": 0, "throttled_s": 0, "paused_by": None, "paused_why": "", "paused_s": None,
            "resumable": False, "resumed": False, "failures": {},
            "lat_us": {"count": ops, "mean": 7e6, "p50": 7e6, "p99": 7e6, "p999": 7e6}, "lat_buckets": told, **more}


LOOKS = [
    [session(1, 1000, {9000: 1000}),  # slow first
     session(2, 1000, {3: 1000}),
     session(3, 10, None),
     session(4, 10, {5: 10}),
     session(6, 50, {5: 50})],
    [session(1, 1100, {2: 98, 4: 2, 9000: 1000}),  # fast later
     session(2, 1200, {3: 1000, 60: 100, 700: 100}),
     session(3, 90, {1: 90}),
     session(4, 10, {5: 10}),
     session(5, 3, {8: 1, 40: 2}),  # has come since
     session(6, 0, {}, state="closing")],
]
WANTED = {1: (2, 4), 2: (60, 700), 3: (None, None), 4: (None, None), 5: (40, 40), 6: (None, None)}


def plain(rows):
    """As they are told to whoever does not ask for buckets."""
    return [{key: value for key, value in row.items() if key != "lat_buckets"} for row in rows]


def made_up(request, times):
    if request["method"] == "session.show":
        rows = LOOKS[min(times, 1)]
        return {"sessions": rows if request.get("params") == {"buckets": True} else plain(rows)}
    return {"shown": "own"} if request["method"] == "status" else {"users": []}


def times_of(rows):
    return {row["id"]: (row["p50_us"], row["p99_us"]) for row in rows}


def check_made_up():
    door = Door(RDMACTL, made_up)
    rows = json.loads(door.top("-j", "top"))["sessions"]
    if times_of(rows) != WANTED:
        fail(f"p50 and p99 are {times_of(rows)}, not {WANTED}: those of the ops between the looks")
    if any(row["ops_per_s"] < 0 for row in rows):
        fail(f"a session that ends did less than nothing: {rows}")
    lines = door.top("top", "-b", "-s", "p99").splitlines()
    if [line.split()[0] for line in lines[1:4]] != ["2", "5", "1"] or not re.search(r" P50 +P99 +QUEUE ", lines[0]):
        fail(f"by p99: {lines}")
    if not re.search(r" - +- +0 ", next(line for line in lines if line.split()[0] == "4")):
        fail(f"a session that did nothing has times: {lines}")


def older(request, times):
    """It refuses to be asked for buckets."""
    if "params" in request:
        return Refused
    if request["method"] == "session.show":
        return {"sessions": plain(LOOKS[min(times // 2, 1)])}
    return {"shown": "own"} if request["method"] == "status" else {"users": []}


def check_older():
    door = Door(RDMACTL, older)
    rows = json.loads(door.top("-j", "top"))["sessions"]
    if not rows or any(times != (None, None) for times in times_of(rows).values()):
        fail(f"of a daemon that tells no buckets: {rows}")
    if door.asked["session.show"] != 3:
        fail(f"it is asked {door.asked['session.show']} times, not 3: what was refused once is asked for no more")


def check_real():
    """Asked for buckets a daemon tells them, of all ops that were done, and only then."""
    real = Real(DIRECTORY, "session.show", COMMAND)
    rows = json.loads(Door(RDMACTL, real).top("-j", "top"))["sessions"]
    if not any(row["ops_per_s"] > 0 and 0 < row["p50_us"] <= row["p99_us"] for row in rows):
        fail(f"no session has times: {rows}")
    for row in real.looks[1]["sessions"]:
        if sum(bucket["count"] for bucket in row["lat_buckets"]) != (row["lat_us"] or {"count": 0})["count"]:
            fail(f"buckets are not those of lat_us: {row}")
    for method, noun in ("session.show", "sessions"), ("link.show", "links"):
        ask = {"jsonrpc": "2.0", "id": 1, "method": method}
        unasked, asked = (real(request, 0)[noun] for request in (ask, {**ask, "params": {"buckets": True}}))
        if not unasked or any("lat_buckets" in row for row in unasked) or not all("lat_buckets" in row for row in asked):
            fail(f"{method} tells buckets unasked, or not when asked: {unasked}, {asked}")


check_made_up()
check_older()
check_real()
