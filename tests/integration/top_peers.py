#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top_peers.py RDMACTL DIRECTORY COMMAND...: rdmactl top of links and peers, between whose looks something happens.

First a control.sock of this test's own answers twice with links whose numbers are made up. Then what the daemon in
DIRECTORY, which has no link yet, says is handed on, and COMMAND makes one between the looks."""
import json
import sys

from top_door import Door, Real, fail

RDMACTL, DIRECTORY, COMMAND = sys.argv[1], sys.argv[2], sys.argv[3:]
STRANGER = "192.0.2.7:7471"


def link(peer, node, ops, worker=0, took=None, **more):
    """took: {us: count} of all ops there were, or None: that is not told. lat_us is not what top goes by."""
    lat = {"count": ops, "mean": 7e6, "p50": 7e6, "p99": 7e6, "p999": 7e6}
    told = None if took is None else [{"us": us, "count": count} for us, count in sorted(took.items())]
    return {"peer": peer, "worker": worker, "session": 0, "fabric": "tcp", "state": "up", "encryption": "none", "handles": 1,
            "channels": 0, "quiesce_s": 0, "rebuilds": 0, "last_error": "", "node": node, "address": STRANGER,
            "last_error_ago_s": None, "ops": ops, "ops_inflight": 0, "ops_failed": 0, "failures": {}, "bytes_read": 0,
            "bytes_written": 0, "lat_us": lat, "lat_buckets": told, "rtt_us": None, "bytes_per_second": None, "retransmits": 0, "looked_ago_s": None,
            **more}


LOOKS = [
    [link(3, "beta", 1000, ops_failed=7, bytes_written=5000000, retransmits=90, took={8000: 990}),  # slow ones, once
     link(3, "beta", 400, worker=1, took={20: 400}),
     link(4, "beta", 50, bytes_read=1000),
     link(5, "", 10),
     link(6, "gamma", 9000),
     link(7, "delta", 5000, state="closing"),
     link(8, "epsilon", 700, bytes_read=800000),
     link(10, "eta", 300, state="closing"),
     link(11, "theta", 100, state="closing"),
     link(11, "theta", 200),
     link(12, "iota", 100),
     link(12, "iota", 300, worker=1),
     link(13, "kappa", 100, session=4),
     link(13, "kappa", 300, session=5)],
    [link(3, "beta", 1100, ops_failed=9, bytes_written=7000000, retransmits=93, ops_inflight=2,
          took={30: 60, 40: 38, 8000: 990}),
     link(3, "beta", 440, worker=1, ops_inflight=3, ops_failed=1, took={20: 438, 80: 2}),
     link(4, "beta", 60, bytes_read=31000),  # the same daemon has dialled, too
     link(5, "", 40, ops_inflight=50),
     link(7, "delta", 5001, state="closing"),
     link(7, "delta", 6000, took={2000: 3000, 3000: 3000}),  # beside the one that ends
     link(8, "epsilon", 20, bytes_read=9000000),  # has gone and come back
     link(9, "zeta", 60, ops_failed=6, retransmits=4),
     link(10, "eta", 500),  # after one that has ended
     link(11, "theta", 150, state="closing"),
     link(11, "theta", 260, state="closing"),
     link(12, "iota", 307, worker=1),  # the other worker's has gone, and the other session's
     link(13, "kappa", 308, session=5)],
]
# Links, ops, failed, bytes read and written, retransmits, queue, p50 and p99 of the time between; gamma's only link has gone.
WANTED = {
    "beta": (3, 150, 3, 30000, 2000000, 3, 5, 30, 80),
    STRANGER: (1, 30, 0, 0, 0, 0, 50, None, None),
    "delta": (2, 6001, 0, 0, 0, 0, 0, 2000, 3000),
    "epsilon": (1, 20, 0, 9000000, 0, 0, 0, None, None),
    "zeta": (1, 60, 6, 0, 0, 4, 0, None, None),
    "eta": (1, 500, 0, 0, 0, 0, 0, None, None),
    "theta": (2, 110, 0, 0, 0, 0, 0, None, None),
    "iota": (1, 7, 0, 0, 0, 0, 0, None, None),
    "kappa": (1, 8, 0, 0, 0, 0, 0, None, None),
}


class MadeUp:
    def __init__(self, shown="all", truncated=False):
        self.shown, self.truncated = shown, truncated

    def __call__(self, request, times):
        if request["method"] == "link.show":
            cut = {"truncated": True} if self.truncated and not times else {}
            return {"links": LOOKS[min(times, 1)], **cut}
        return {"shown": self.shown} if request["method"] == "status" else {"users": [], "sessions": []}


def counts(row, span_s):
    """What a row's rates come to in that time."""
    return tuple(round(row[f"{key}_per_s"] * span_s) for key in ("ops", "ops_failed", "bytes_read", "bytes_written", "retransmits"))


def span_of(rows, ops):
    """The time between the looks, of which only this is known: so many ops were done in it."""
    rate = sum(row["ops_per_s"] for row in rows)
    return ops / rate if rate else fail(f"{ops} ops were done between the looks, and none is told: {rows}")


def check_json():
    said = json.loads(Door(RDMACTL, MadeUp()).top("-j", "top"))
    span_s = span_of(said["peers"], sum(of[1] for of in WANTED.values()))
    seen = {row["peer"]: (row["links"], *counts(row, span_s), row["ops_inflight"], row["p50_us"], row["p99_us"]) for row in said["peers"]}
    if seen != WANTED:
        fail(f"peers are {seen}, not {WANTED}")
    if [row["peer"] for row in said["peers"]][:2] != ["epsilon", "beta"]:
        fail(f"by bytes: {said['peers']}")
    links = sorted((row["peer"], *counts(row, span_s)[:1]) for row in said["links"])
    if links != [(3, 40), (3, 100), (4, 10), (5, 30), (7, 1), (7, 6000), (8, 20), (9, 60), (10, 500), (11, 50), (11, 60), (12, 7), (13, 8)]:
        fail(f"ops of links are {links}")
    times = sorted((row["peer"], row["worker"], row["p50_us"], row["p99_us"]) for row in said["links"] if row["p50_us"])
    if times != [(3, 0, 30, 40), (3, 1, 20, 80), (7, 0, 2000, 3000)]:
        fail(f"times of the ops of links between the looks are {times}")
    if [row["peer"] for row in said["links"]][:2] != [8, 3] or said["links"][1]["node"] != "beta":
        fail(f"links by bytes: {said['links']}")


def rows_of(door, *options):
    head, *rows = [line.split() for line in door.top("top", "-b", *options).splitlines()]
    return head, rows


def check_tables():
    door = Door(RDMACTL, MadeUp())
    for key, *first in (("bytes", "epsilon", "beta"), ("ops", "delta", "eta"), ("p99", "delta", "beta"),
                        ("memory", "epsilon", "beta"), ("queue", STRANGER, "beta")):
        head, rows = rows_of(door, "-p", "-s", key)
        if head != ["PEER", "LINKS", "OPS/S", "READ/S", "WRITTEN/S", "P50", "P99", "QUEUE", "FAILED", "RETRANSMITS"]:
            fail(f"columns of peers: {head}")
        if [row[0] for row in rows[:2]] != first or len(rows) != len(WANTED):
            fail(f"peers by {key}: {rows}")
    row = {row[0]: row for row in rows}
    if row["beta"][1] != "3" or row["beta"][-3:] != ["5", "3", "3"] or row["zeta"][-4:] != ["-", "0", "6", "4"]:
        fail(f"links, queue, failures or retransmits of peers: {rows}")
    for key, *first in ("bytes", "8", "3"), ("ops", "7", "10"), ("p99", "7", "3"), ("memory", "8", "3"), ("queue", "5", "3"):
        head, rows = rows_of(door, "-l", "-s", key)
        if head[0] != "PEER" or [row[0] for row in rows[:2]] != first or len(rows) != len(LOOKS[1]):
            fail(f"links by {key}: {head} {rows}")


def check_truncated():
    """Which links are new is not known if the first look has not told all."""
    said = json.loads(Door(RDMACTL, MadeUp(truncated=True)).top("-j", "top"))
    rates = {row["peer"]: row["ops_per_s"] for row in said["peers"]}
    if rates["zeta"] or rates["epsilon"] or not rates["beta"]:
        fail(f"a link that the first look did not tell counts as new: {rates}")


def check_own_only():
    """Nobody asks for what it may not see, as that would be an event."""
    door = Door(RDMACTL, MadeUp(shown="own"))
    said = json.loads(door.top("-j", "top"))
    if said["links"] is not None or said["peers"] is not None or said["sessions"] != [] or "link.show" in door.asked:
        fail(f"who sees its own only: {said}, of {door.asked}")
    for option in "-l", "-p":
        if not json.loads(door.top("-j", "top", option))["peers"]:
            fail(f"{option} does not ask for links")


def check_real():
    real = Real(DIRECTORY, "link.show", COMMAND)
    said = json.loads(Door(RDMACTL, real).top("-j", "top"))
    before, after = (look["links"] for look in real.looks)
    if before or not after:
        fail(f"links before and after: {before}, {after}")
    ops = sum(row["ops"] for row in after)
    names = {row["node"] or row["address"] for row in after}
    if ops < 100 or {row["peer"] for row in said["peers"]} != names or sum(row["links"] for row in said["peers"]) != len(after):
        fail(f"peers: {said['peers']}, of {after}")
    span_s = span_of(said["links"], ops)
    for key in "ops", "bytes_read", "bytes_written":
        told = round(sum(row[f"{key}_per_s"] for row in said["peers"]) * span_s)
        if told != sum(row[key] for row in after):
            fail(f"{key} of a link that came between the looks: {told}, of {after}")
    if not all(row["p99_us"] for row in said["peers"]):
        fail(f"times of peers: {said['peers']}")


check_json()
check_tables()
check_truncated()
check_own_only()
check_real()
