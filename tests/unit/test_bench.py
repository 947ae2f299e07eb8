#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/compare's arithmetic, and that what it prints is what bench/README.md promises; bench/plot's pictures."""
import contextlib
import importlib.machinery
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True


def load(name):
    path = os.path.join(ROOT, "bench", name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


compare, plot = load("compare"), load("plot")
guest, peers, placed, processors, rdmad, shares, spent = (
    compare.guest, compare.peers, compare.rdmad.placed, compare.processors, compare.rdmad, compare.shares, compare.spent)

BANDWIDTH = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      300              85.33              58.83  \t\t   0.000941
---------------------------------------------------------------------------------------
"""
LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec] \
  99% percentile[usec]   99.9% percentile[usec]
 8       5000          18.04          1085.64      23.77    \t       26.23       \t17.98  \t\t141.24  \
\t\t253.44
"""


class Rows(unittest.TestCase):
    def result(self, unit, ours, theirs):
        row = compare.Row("a row", unit, "ours", "a peer", "theirs")
        return row.result({"ours": ours, "theirs": theirs})

    def test_more_bandwidth_than_the_peer_is_a_ratio_above_1(self):
        self.assertEqual(self.result("GB/s", [3.0, 9.0, 1.0], [2.0])["ratio"], 1.5)
        self.assertEqual(self.result("Mop/s", [1.0], [2.0])["ratio"], 0.5)

    def test_less_time_than_the_peer_is_a_ratio_above_1(self):
        self.assertEqual(self.result("us", [2.0], [3.0])["ratio"], 1.5)
        self.assertEqual(self.result("us", [4.0], [1.0, 2.0, 30.0])["ratio"], 0.5)

    def test_nothing_measured_is_no_win(self):
        self.assertEqual(self.result("GB/s", [1.0], [0.0])["ratio"], 0.0)

    def test_a_shared_number_is_taken_once_a_round_and_sides_take_turns(self):
        taken = []

        class Side:
            def __init__(self, name):
                self.name = name

            def number(self, size):
                taken.append((self.name, size))
                return 1.0

        plan, ours, one, two = compare.Plan(), Side("ours"), Side("one"), Side("two")
        for peer in (one, two):
            plan.row(peer.name, "us", plan.measure(ours.number, 8), peer.name,
                     plan.measure(peer.number, 8))
        plan.run(2, lambda text: None)
        self.assertEqual(taken, 2 * [("ours", 8), ("one", 8), ("two", 8)])

    def test_ways_to_wait_take_turns_and_neighbours_are_compared(self):
        taken, plan = [], compare.Plan()

        class Side:
            def __init__(self, name):
                self.name = name

            def number(self):
                taken.append(self.name)
                return {"ours": 1.0, "theirs": 2.0}[self.name] * (1 + len(taken) // 2 % 2)

        plan.rows.append(compare.TurnsRow("a row", "kop/s", plan.measure(Side("ours").number), "",
                                          plan.measure(Side("theirs").number)))
        row = plan.run(3, lambda text: None)[0]
        self.assertEqual(taken, 12 * ["ours", "theirs", "theirs", "ours"])
        self.assertEqual(len(row["quartiles"]), 2)

    def test_the_ratio_of_turns_is_the_median_of_neighbours_and_not_of_all(self):
        row = compare.TurnsRow("a row", "us", "ours", "", "theirs")
        result = row.result({"ours": [1.0, 10.0, 100.0], "theirs": [2.0, 5.0, 300.0]})
        self.assertEqual(result["ratio"], 2.0)
        self.assertEqual(result["quartiles"], [1.25, 2.5])

    def test_only_leaves_no_measurement_that_no_row_needs(self):
        plan = compare.Plan()
        plan.row("wanted", "us", plan.measure("a".count, "x"), "", plan.measure("a".find, "x"))
        plan.row("other", "us", plan.measure("a".count, "y"), "", plan.measure("a".find, "y"))
        plan.keep_only("want")
        self.assertEqual([len(plan.rows), len(plan.measures)], [1, 2])

    def test_only_what_is_promised_of_is_left_if_that_is_asked_for(self):
        plan = compare.Plan()
        for name, promise in (("a wish", None), ("a promise", (0.5, None)), ("another", (0.5, 2))):
            plan.row(name, "us", plan.measure(name.count, "x"), "", plan.measure(name.find, "x"), promise)
        plan.keep_only("", promised=True)
        self.assertEqual([row.name for row in plan.rows], ["a promise", "another"])
        plan.keep_only("an", promised=True)
        self.assertEqual([row.name for row in plan.rows], ["another"])

    def test_a_promise_that_cannot_be_measured_ends_a_run_of_what_is_promised(self):
        daemons = types.SimpleNamespace(work="/nowhere")
        for asked, ends in ((False, contextlib.nullcontext()), (True, self.assertRaisesRegex(rdmad.Failure, "NumPy"))):
            run = types.SimpleNamespace(build="", notes=[], promised=asked)
            with unittest.mock.patch.object(compare.large, "has_python", return_value=False), ends:
                compare.whole_gib(run, compare.Plan(), daemons)
                self.assertIn("NumPy", run.notes[0])


class TwoProcessors(unittest.TestCase):
    """A cache line takes 0.07 us between them while they share a cache, and 0.3 while they do not."""

    def on(self, apart):
        """A machine of which apart tells, of each moment, whether its processors are far from each other."""
        self.time = 0.0

        def sleep(seconds):
            self.time += seconds

        def round_trip(seconds):
            self.time += seconds
            return 0.3 if apart(self.time) else 0.07

        return processors.Processors(round_trip, lambda: self.time, sleep)

    def measure(self, seconds):
        def run():
            self.time += seconds
            return self.time
        return run

    def test_what_is_measured_begins_when_they_are_near(self):
        two = self.on(lambda now: 1 < now < 10)
        self.assertGreater(two.steadily(self.measure(1)), 11)
        two = self.on(lambda now: now < 1.5)
        self.assertGreater(two.steadily(self.measure(1)), 2.5)
        self.assertEqual(two.apart(), 0)

    def test_whoever_was_apart_from_the_start_is_found_out_later(self):
        two = self.on(lambda now: now < 10)
        self.assertLess(two.steadily(self.measure(1)), 10)
        self.assertEqual(two.apart(), 0)
        two.steadily(self.measure(10))
        self.assertEqual(two.apart(), 1)

    def test_what_they_came_apart_in_is_measured_again(self):
        two = self.on(lambda now: 3 < now < 4)
        self.assertGreater(two.steadily(self.measure(1.5)), 5)
        self.assertEqual((len(two.kept), two.apart()), (1, 0))

    def test_a_machine_that_keeps_them_apart_is_measured_all_the_same_and_that_is_said(self):
        two = self.on(lambda now: now > 1)
        for _ in range(3):
            two.steadily(self.measure(1))
        self.assertEqual((len(two.kept), two.apart()), (3, 3))
        self.assertLess(self.time, processors.PATIENCE + 10)
        self.assertIn("0.07 to 0.30 us there and back. 3 of 3 measurements", two.notes()[0])

    def test_of_a_steady_machine_nothing_is_said(self):
        two = self.on(lambda now: False)
        two.steadily(self.measure(1))
        self.assertEqual(two.notes(), [])
        self.assertEqual(self.on(lambda now: True).notes(), [], "nothing was measured")


class Placed(unittest.TestCase):
    def test_each_has_a_processor_or_the_clients_share_one_and_the_daemons_another(self):
        self.assertEqual(placed.places([2, 3, 5, 7, 8]), (2, 3, 5, 7))
        for cpus in ([4, 5], [4, 6, 5]):
            self.assertEqual(placed.places(cpus), (4, 5, 5, 4))
        self.assertEqual(placed.places([3]), (3, 3, 3, 3))

    def test_the_server_whose_memory_is_used_is_placed_and_not_another_of_the_same_daemons(self):
        daemons = types.SimpleNamespace(pids={"lessee": 1, "owner": 2, "owner's": 4})
        ours = types.SimpleNamespace(daemons=daemons, server=3, bench=lambda *args, **kwargs: {"lat_us": {"p50": args}})
        with unittest.mock.patch.object(placed, "alike", return_value=contextlib.nullcontext()) as alike:
            self.assertEqual(rdmad.Ours.placed_latency(ours, "write", 8), ("write", 8, 1))
        alike.assert_called_once_with(1, 2, 3)

    def test_all_threads_are_moved_and_come_back_whatever_happens(self):
        before = os.sched_getaffinity(0)
        if len(before) < 2:
            self.skipTest("one processor only")
        where = placed.places(sorted(before))

        def cpus(pid):
            return [os.sched_getaffinity(int(tid)) for tid in os.listdir(f"/proc/{pid}/task")]

        two_threads = [sys.executable, "-c", "import threading; threading.Thread(target=input).start(); print(flush=True); "
                                             "threading.Event().wait()"]
        with contextlib.ExitStack() as stack:
            started = [stack.enter_context(peers.started(two_threads, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                       for _ in range(3)]
            for p in started:
                p.stdout.readline()
            pids = [p.pid for p in started]
            with self.assertRaises(rdmad.Failure), placed.alike(*pids):
                self.assertEqual(os.sched_getaffinity(0), {where[0]})
                self.assertEqual([cpus(pid) for pid in pids], [2 * [{cpu}] for cpu in where[1:]])
                started[2].kill()
                started[2].wait()
                raise rdmad.Failure("no answer")
            self.assertEqual(os.sched_getaffinity(0), before)
            self.assertEqual([cpus(pid) for pid in pids[:2]], 2 * [2 * [before]])


class Perftest(unittest.TestCase):
    def test_its_columns(self):
        self.assertEqual(peers.perftest.numbers(BANDWIDTH), [65536, 300, 85.33, 58.83, 0.000941])
        self.assertEqual(peers.perftest.numbers(LATENCY)[4], 23.77)

    def test_output_without_results_is_an_error(self):
        for text in ("", "Couldn't connect to 127.0.0.1:1\n", BANDWIDTH.replace("58.83", "fast")):
            with self.assertRaises(peers.PeerFailure):
                peers.perftest.numbers(text)

    def test_zeros_are_measured_again_and_not_for_ever(self):
        zeros = [65536, 300, 0.0, 0.0, 0.0]
        for answers, result in (([zeros, [1, 2, 3, 4, 5]], 5), (100 * [zeros], None)):
            side = peers.perftest.Perftest("d0", "d1", lambda size: 1)
            side.once = lambda *_, answers=answers: answers.pop(0)
            if result:
                self.assertEqual(side.rate("write", 64), result)
            else:
                with self.assertRaises(peers.PeerFailure):
                    side.rate("write", 64)

    def test_bandwidth_is_in_units_of_10_to_the_9th(self):
        side = peers.perftest.Perftest("d0", "d1", lambda size: 1)
        side.run = lambda *_: peers.perftest.numbers(BANDWIDTH)
        self.assertAlmostEqual(side.bandwidth("write", 65536), 58.83 * 1048576 / 1e9)
        self.assertEqual(side.rate("write", 64), 0.000941)

    def test_atomics_have_programs_of_their_own_which_take_no_size(self):
        side = peers.perftest.Perftest("d0", "d1", lambda size: 1)
        self.assertEqual(side.command("cas", "lat", 8),
                         ["ib_atomic_lat", "-F", "-A", "CMP_AND_SWAP"])
        self.assertEqual(side.command("send", "bw", 64), ["ib_send_bw", "-F", "-s", "64"])
        self.assertEqual(side.title("fadd", "bw"), "ib_atomic_bw")

    def test_the_gid_is_that_of_an_ipv4_address_wherever_it_is(self):
        with tempfile.TemporaryDirectory() as sysfs:
            os.makedirs(f"{sysfs}/d0/ports/1/gids")
            for index, gid in enumerate(("fe80" + 6 * ":0000" + ":0001", 7 * "0000:" + "0000",
                                         "0000:0000:0000:0000:0000:ffff:0a4d:0001")):
                with open(f"{sysfs}/d0/ports/1/gids/{index}", "w", encoding="ascii") as f:
                    f.write(gid + "\n")
            self.assertEqual(peers.perftest.gid_index("d0", sysfs), 2)
            os.remove(f"{sysfs}/d0/ports/1/gids/2")
            with self.assertRaises(peers.PeerFailure):
                peers.perftest.gid_index("d0", sysfs)


class Guest(unittest.TestCase):
    """document() with a tests/vm/run of our own in a root of our own."""

    def document(self, script):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(root + "/tests/vm")
            with open(root + "/tests/vm/run", "w", encoding="ascii") as f:
                f.write("#!/bin/sh\n" + script)
            os.chmod(root + "/tests/vm/run", 0o755)
            self.progress = []

            def progress(line):
                self.progress.append(line)
                return line.startswith("progress")

            return guest.document(["verbs"], root, 3, progress)

    def test_its_document_is_ours(self):
        script = "echo progress: 1 >&2; echo noise >&2; echo '{\"rows\": [\"'\"$3 $4\"'\"]}'"
        self.assertEqual(self.document(script), {"rows": ["verbs -j"]})
        self.assertEqual(self.progress, ["progress: 1", "noise"])

    def test_what_went_wrong_there_is_said_here(self):
        for script, said in ((json.dumps({"error": {"text": "no device"}}), "no device"),
                             ("", "a panic")):
            with self.assertRaisesRegex(rdmad.Failure, said):
                self.document(f"echo a panic >&2; echo '{script}'; exit 125")


class Spent(unittest.TestCase):
    def test_times_are_per_op_and_add_up_over_rounds(self):
        daemons = types.SimpleNamespace(pids={})
        watch = spent.Watch(daemons)
        ops = itertools.count(0, 100)
        watch.operations = lambda: next(ops)
        for _ in range(2):
            watch.ours(("write", 64, 128), lambda: {"msg_rate_mops": 0.25})
            watch.add(("write", 64, 128), "lessee worker", 100, (300.0, 700.0, 50))
        (row,) = watch.document()
        self.assertEqual(row["op_us"], 4.0)
        self.assertIn({"thread": "lessee worker", "user_us": 3.0, "system_us": 7.0, "sleeps": 0.5},
                      row["threads"])

    def test_the_times_of_a_process_are_found(self):
        before = spent.threads(os.getpid())
        sum(range(3_000_000))
        after = spent.threads(os.getpid())
        used = {name: spent.less(use, before.get(name, (0.0, 0.0, 0)))
                for name, use in after.items()}
        self.assertGreater(sum(user + system for user, system, _ in used.values()), 0)


def promised(scenario):
    """The names in bench/README.md, with OP and SIZE replaced."""
    with open(os.path.join(ROOT, "bench/README.md"), encoding="utf-8") as f:
        cells = [line.split("|")[2] for line in f if line.startswith(f"| {scenario} |")]
    names = set()
    for name in itertools.chain(*(re.findall("`([^`]*)`", cell) for cell in cells)):
        for op, size in itertools.product(("write", "read"), ("4 KiB", "64 KiB", "1 MiB")):
            for kind, route in itertools.product(compare.shares.STORMS, ("local", "tcp")):
                names.add(name.replace("OP", op).replace("SIZE", size).replace("KIND", kind)
                          .replace("ROUTE", route))
    return names


class Large(unittest.TestCase):
    def test_a_copy_that_is_not_whole_is_no_number(self):
        with tempfile.TemporaryDirectory() as work:
            files = compare.large.Files(types.SimpleNamespace(work=work))
            with self.assertRaisesRegex(rdmad.Failure, "sh made a file of 3 bytes"):
                files.timed(["sh", "-c", f"printf abc >{files.copy}"])
            self.assertEqual(os.listdir(work), [])

    def test_a_reader_that_ends_is_said(self):
        with peers.started(["true"], stdout=subprocess.PIPE, text=True) as program:
            with self.assertRaisesRegex(rdmad.Failure, "the reader in C printed nothing and ended"):
                compare.large.first_line(program, "the reader in C")


class Shares(unittest.TestCase):
    """Users between whom nothing is moved: what is promised of which row, and beside whom it is measured."""

    HOSTILE = "a hostile user with storms"

    def users(self):
        users = shares.Users.__new__(shares.Users)  # root is not needed
        users.name, users.daemons = "tcp", types.SimpleNamespace(build="/b")
        users.took, users.hostile, users.computing, users.programs = [], {}, {}, []
        return users

    def judged(self, who):
        users, plan = self.users(), compare.Plan()
        users.plan_beside(plan, who, [users.beside_worst], [users.p99_beside_worst])
        return {row.name.partition(" vs ")[2]: row.promise for row in plan.rows if "bandwidth" in row.name}

    def test_what_is_left_of_what_one_has_alone_is_judged_and_the_row_beside_who_computes_explains_it(self):
        self.assertEqual(self.judged(self.HOSTILE),
                         {"alone, tcp": (0.45, None), "beside one who only computes, tcp": None})

    def test_nothing_is_promised_beside_a_storm_alone(self):
        self.assertEqual(self.judged("a cancel storm"), {"alone, tcp": None})

    def test_who_computes_does_so_as_the_hostile_user_of_the_same_round(self):
        users, started = self.users(), []
        users.worst, users.beside = lambda: None, lambda neighbour: 1.0
        users.at_work = lambda *argv: started.append(argv)
        for share in (0.5, 0.25):
            users.took = [(False, 0.07), (True, share)]
            users.beside_worst()
            users.beside_computing(self.HOSTILE)
        self.assertEqual(started, [(shares.OTHER, "bench_computes", "0.0700", f"idle:{share}")
                                   for share in ("0.5000", "0.2500")])

    def test_both_sides_of_a_row_are_of_one_round_and_hostile_comes_first(self):
        users, plan, order = self.users(), compare.Plan(), []
        for name in ("alone", "beside_worst", "beside_computing"):
            def measured(*_, name=name):
                order.append(name)
                return 1.0
            measured.__name__, measured.__self__ = name, users
            setattr(users, name, measured)
        users.plan_beside(plan, self.HOSTILE, [users.beside_worst], [users.p99_beside_worst])
        plan.keep_only("bandwidth")
        plan.run(2, lambda text: None)
        self.assertEqual(order, 2 * ["beside_worst", "alone", "beside_computing"])

    def test_what_they_had_is_said(self):
        users = self.users()
        self.assertEqual(users.notes(), [])
        users.hostile = {self.HOSTILE: [[(False, 0.1), (True, 0.3)], [(False, 0.1), (True, 0.5)], [(True, 9.0)]]}
        users.computing = {self.HOSTILE: [[(False, 0.1), (True, 0.4)]]}
        had, = users.notes()
        self.assertIn("the 2 processes of a hostile user with storms had 0.60 processors", had)
        self.assertIn("only computed instead 0.50", had)

    def test_the_time_of_a_program_is_that_of_its_children_too(self):
        busy = "while :; do :; done"
        with peers.started(["sh", "-c", f"trap 'kill $!; exit' TERM; ({busy}) & {busy}"]) as program:
            for _ in range(600):
                times = shares.process_times([program.pid])
                if len(times) == 2 and min(times.values()) > 0:
                    break
                time.sleep(0.05)
            self.assertEqual(len(times), 2)
            self.assertGreater(min(times.values()), 0)
            self.assertIn(program.pid, times)
            self.assertFalse(shares.is_idle(program.pid))


class Names(unittest.TestCase):
    def test_are_those_of_the_readme(self):
        fake = types.SimpleNamespace(Daemons=lambda *args: types.SimpleNamespace(build="", configs=[{}]),
                                     Ours=rdmad.Ours, Pool=rdmad.Pool, Leases=rdmad.Leases,
                                     SLICE=rdmad.SLICE)
        run = types.SimpleNamespace(build=ROOT, stack=None, notes=[], watch=None, explain=False,
                                    poll="busy", devices=["rxe0", "rxe1"], later=[], promised=False)
        with contextlib.ExitStack() as stack:
            def replace(where, name, value):
                stack.callback(setattr, where, name, getattr(where, name))
                setattr(where, name, value)

            replace(compare, "rdmad", fake)
            replace(rdmad.Ours, "serve", lambda self, span: ("rdmad://x", 1))
            replace(peers.FabricPair, "__init__", lambda self, build: setattr(self, "program", "/"))
            replace(compare.large, "has_python", lambda build: True)
            for (scenario, plan), run.loaded in itertools.product(compare.PLANS.items(),
                                                                  (False, True)):
                rows = plan(run).rows
                if scenario == "shares":  # over verbs it is another plan
                    rows += plan(types.SimpleNamespace(**{**vars(run), "devices": None})).rows
                names = [row.name for row in rows]
                self.assertEqual(len(names), len(set(names)))
                more = promised(f"{scenario}, loaded") if run.loaded else set()
                self.assertEqual(set(names), promised(scenario) | more, scenario)
                self.assertTrue(all(row.ours != row.theirs for row in rows), scenario)


class Plot(unittest.TestCase):
    """What bench/plot draws of a document, looked at as the XML that it is."""

    SVG = "{http://www.w3.org/2000/svg}"

    def document(self, *ratios, **more):
        rows = [{"name": f"row{n} & <more> vs peer{n % 2}", "unit": "GB/s", "ours": 12345.0,
                 "theirs": 67890.0, "peer": "a long title", "ratio": ratio, **more}
                for n, ratio in enumerate(ratios)]
        return {"schema": 1, "scenario": "tcp", "rounds": 3, "rows": rows, "notes": ["a < b"]}

    def draw(self, *documents, only=""):
        self.text = plot.draw(list(documents), only)
        root = xml.etree.ElementTree.fromstring(self.text)
        self.words = [it.text for it in root.iter(self.SVG + "text")]
        # (from, to, colour) of each bar, and where the line at 1 is.
        self.bars = [(float(it.get("x")), float(it.get("x")) + float(it.get("width")), it.get("fill"))
                     for it in root.iter(self.SVG + "rect") if it.get("height") == str(plot.ROW - 5)]
        lines = [it.get("d") for it in root.iter(self.SVG + "path") if it.get("stroke") == plot.TEXT]
        self.one = float(re.match(r"M([0-9.]+)", lines[0]).group(1))

    def test_a_bar_goes_from_1_to_the_right_where_ours_is_better(self):
        self.draw(self.document(2.0, 4.0))
        self.assertEqual([b[0] for b in self.bars], [self.one, self.one])
        (_, two, colour), (_, four, _) = self.bars
        # Doublings are equally long.
        self.assertAlmostEqual(four - self.one, 2 * (two - self.one), delta=0.3)
        self.assertEqual(colour, plot.OURS)

    def test_and_to_the_left_where_the_peer_is(self):
        self.draw(self.document(0.5, 2.0))
        left, right = self.bars
        self.assertEqual(left[2], plot.THEIRS)
        self.assertAlmostEqual(left[1], self.one, delta=0.2)
        self.assertAlmostEqual(self.one - left[0], right[1] - self.one, delta=0.3)

    def test_rows_stand_under_their_peer_with_their_ratio_and_nothing_else(self):
        self.draw(self.document(1.5, 0.25, 0.012))
        self.assertEqual([w for w in self.words if w.startswith(("against", "row"))],
                         ["against peer0", "row0 & <more>", "row2 & <more>",
                          "against peer1", "row1 & <more>"])
        for ratio in ("1.50", "0.25", "0.012"):
            self.assertIn(ratio, self.words)
        for number in ("12345", "67890", "GB/s"):  # they would not compare
            self.assertNotIn(number, self.text)

    def test_nothing_measured_has_no_bar(self):
        self.draw(self.document(0.0, 2.0))
        self.assertEqual(len(self.bars), 1)
        self.assertIn("nothing was measured", self.words)

    def test_all_rows_of_a_scenario_are_a_small_picture(self):
        self.draw(self.document(*(0.03 * n for n in range(1, 60)), quartiles=[1, 2]),
                  self.document(1.0))
        self.assertEqual(len(self.bars), 60)
        self.assertLess(len(self.text.encode()), 60000)
        self.assertGreater(min(b[0] for b in self.bars), plot.LEFT - 1)
        self.assertLess(max(b[1] for b in self.bars), plot.WIDTH - plot.RIGHT + 1)

    def test_what_is_no_such_document_is_refused_in_words(self):
        def rows(text):
            return f'{{"schema": 1, "rows": [{text}]}}'

        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "it.json")
            for text, words in (
                    ("", "Expecting value"), ("[]", "schema 1"), ('{"schema": 2}', "schema 1"),
                    (rows(""), "no rows"), (rows('{"name": "a"}'), "no ratio"),
                    (rows('{"name": "a", "ratio": -1}'), "no ratio"),
                    (rows('{"name": "a", "ratio": Infinity}'), "no ratio"),
                    (rows('{"name": "a", "ratio": 1, "quartiles": [0, "x"]}'), "no ratio"),
                    ('{"schema": 1, "error": {"text": "no peer"}}', "failed: no peer")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                with self.assertRaises(plot.Unfit) as raised:
                    plot.read(path)
                self.assertIn(words, str(raised.exception))
        with self.assertRaises(plot.Unfit):
            plot.draw([self.document(1.0)], "there is no such row")

    def test_committed_pictures_are_small_and_of_ratios(self):
        folder = os.path.join(ROOT, "docs/plots")
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                picture = file.read()
            self.assertLess(len(picture.encode()), 60000, name)
            self.assertIn(plot.DRAWN, picture, name)


if __name__ == "__main__":
    unittest.main()
