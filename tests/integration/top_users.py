#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top_users.py RDMACTL DIRECTORY COMMAND...: rdmactl top of users, between whose looks something happens.

First a control.sock of this test's own answers twice with users whose numbers are made up: times are those of the ops
between the looks, not of all that there ever were. Then what the daemon in DIRECTORY says is handed on, and COMMAND, a
program with a session of its own, begins and ends between the looks."""
import json
import os
import re
import sys

from top_door import Door, Real, fail

RDMACTL, DIRECTORY, COMMAND = sys.argv[1], sys.argv[2], sys.argv[3:]
WEIGHT = 100
OP_COST = 2048  # bytes, in shares


# ---- numbers that are made up


def user(uid, sessions, ops, buckets, tenant=None, **more):
    """buckets: {us: count}, or None: they are not told."""
    told = None if buckets is None else [{"us": us, "count": count} for us, count in sorted(buckets.items())]
    return {"uid": uid, "tenant": tenant, "sessions": sessions, "bytes": 4096 * uid, "leases": 0, "ops": ops, "ops_inflight": 0,
            "ops_in_rings": 0, "ops_failed": 0, "bytes_read": 0, "bytes_written": 0, "lat_us": None, "lat_buckets": told, "weight": WEIGHT,
            "priority": 0, "bytes_per_second": 0, "ops_per_second": 0, "throttled_s": 0, **more}


LOOKS = [
    [user(1000, 2, 10000, {1: 10000}),
     user(1001, 0, 500, {2: 500}),
     user(1002, 1, 7, {3: 4, 5: 3}),
     user(1003, 1, 7, None),
     user(1005, 1, 100, {1.5: 100}, "blue")],
    # Its sessions have ended, and their ops stay.
    [user(1000, 0, 10100, {1: 10000, 50: 98, 900: 2}),
     user(1001, 0, 500, {2: 500}),
     user(1002, 1, 7, {3: 4, 5: 3}, ops_inflight=7, ops_in_rings=2),
     user(1003, 1, 99, {1: 99}),
     user(1004, 1, 3, {8: 1, 40: 1, 600: 1}, bytes_read=500 * OP_COST, bytes_written=1000 * OP_COST),
     user(1005, 1, 10, {1.5: 10}),
     user(1005, 1, 300, {0.5: 100, 1.5: 200}, "blue")],
]


def made_up(request, times):
    return {"users": LOOKS[min(times, 1)]} if request["method"] == "user.show" else {"sessions": []}


def name(row):
    return f"{row['uid']}@{row['tenant']}" if row["tenant"] else str(row["uid"])


def check_made_up():
    door = Door(RDMACTL, made_up)
    rows = {name(row): row for row in json.loads(door.top("-j", "top"))["users"]}
    wanted = {"1000": (50, 900), "1002": (None, None), "1003": (None, None), "1004": (40, 600), "1005": (1.5, 1.5),
              "1005@blue": (0.5, 1.5)}
    seen = {who: (row["p50_us"], row["p99_us"]) for who, row in rows.items()}
    if seen != wanted:
        fail(f"p50 and p99 are {seen}, not {wanted}: those of the ops between the looks, of whoever has a session or did something")
    if not rows["1000"]["ops_per_s"] > 30 * rows["1004"]["ops_per_s"] > 0 or rows["1002"]["ops_per_s"]:
        fail(f"ops a second: {rows}")
    if abs(sum(row["share"] for row in rows.values()) - 1) > 0.001:
        fail(f"shares: {rows}")
    if abs(rows["1004"]["share"] - 1503 / 1905) > 0.001:
        fail(f"a share is not of bytes and ops together: {rows}")
    said = door.top("top", "-b", "-u", "-s", "p99")
    if not re.search(r"^ *UID .* WRITTEN/S +P50 +P99 +QUEUE ", said):
        fail(f"no columns of times: {said}")
    first = [line.split()[0] for line in said.splitlines()[1:]]
    if first[:4] != ["1000", "1004", "1005", "1005@blue"] or set(first[4:]) != {"1002", "1003"}:
        fail(f"by p99: {said}")
    if not re.search(r"^ *1002 .* - +- +9 ", said, re.MULTILINE):
        fail(f"who did nothing has times, or its queue is not there: {said}")
    first = [line.split()[0] for line in door.top("top", "-b", "-u", "-s", "queue").splitlines()[1:]]
    if first[0] != "1002":
        fail(f"by queue: {first}")


# ---- a daemon's


def check_real():
    real = Real(DIRECTORY, "user.show", COMMAND)
    rows = [row for row in json.loads(Door(RDMACTL, real).top("-j", "top"))["users"] if row["uid"] == os.getuid()]
    before, after = (next((row for row in look["users"] if row["uid"] == os.getuid()), None) for look in real.looks)
    if before["sessions"] != after["sessions"]:
        fail(f"the program has not gone: {before}, {after}")
    if after["ops"] <= before["ops"] or len(rows) != 1 or rows[0]["ops_per_s"] <= 0:
        fail(f"ops of a session that came and went between the looks are missing: {before}, {after}, {rows}")
    if not 0 < rows[0]["p50_us"] <= rows[0]["p99_us"]:
        fail(f"times of a session that came and went between the looks are missing: {rows}")


check_made_up()
check_real()
