#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""soak_plot.py CSV PNG: what the daemons of a soak held at rest, over time.

A panel for each quantity, a line for each daemon, a mark where a daemon was upgraded or restarted.
Lines of the CSV: seconds, daemon, life, quantity, value.
"""
import collections
import csv
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLUMNS = 3
UNITS = {"memory_kib": "resident memory, MiB", "pool_bytes": "pool bytes, MiB"}
SCALES = {"memory_kib": 1 / 1024, "pool_bytes": 1 / 1048576}


def read(path):
    """{quantity: {daemon: [(minutes, value)]}}, and [(minutes, daemon)] of new lives."""
    series = collections.defaultdict(lambda: collections.defaultdict(list))
    lives, begun = {}, []
    with open(path, newline="", encoding="ascii") as rows:
        for seconds, daemon, life, quantity, value in csv.reader(rows):
            minutes = float(seconds) / 60
            scale = SCALES.get(quantity, 1)
            series[quantity][daemon].append((minutes, float(value) * scale))
            if lives.setdefault(daemon, life) != life:
                lives[daemon] = life
                begun.append((minutes, daemon))
    return series, begun


def plot(series, begun, path):
    shown = [q for q in series if any(v for line in series[q].values() for _, v in line)]
    rows = math.ceil(len(shown) / COLUMNS)
    figure, panels = plt.subplots(rows, COLUMNS, figsize=(12, 2.1 * rows), sharex=True, squeeze=False)
    for panel in panels.flat[len(shown) :]:
        panel.axis("off")
    for panel, quantity in zip(panels.flat, shown):
        for daemon, line in sorted(series[quantity].items()):
            panel.plot(*zip(*line), label=daemon, linewidth=1)
        for minutes, _ in begun:
            panel.axvline(minutes, color="0.8", linewidth=0.8, zorder=0)
        panel.set_title(UNITS.get(quantity, quantity.replace("_", " ")), fontsize=9)
        panel.set_ylim(bottom=0)
        panel.tick_params(labelsize=8)
    for panel in panels[-1]:
        panel.set_xlabel("minutes", fontsize=8)
    panels.flat[0].legend(fontsize=8)
    figure.suptitle("Held at rest; grey: an upgrade or a restart of a daemon", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    series, begun = read(sys.argv[1])
    if not series:
        sys.exit(f"{sys.argv[1]} holds no samples")
    plot(series, begun, sys.argv[2])


if __name__ == "__main__":
    main()
