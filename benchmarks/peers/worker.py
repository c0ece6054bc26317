"""One entry, once, in a process of its own: start, the measured call. Standard library only.

    python worker.py ENTRY FUNCTION FILE FIRST_FILE KEYS_PER_UNIT EPSILON DELTA STARTED OUTPUT

Time and memory are those of the process and all its descendants (Spark is one). With a first file, time is measured:
"start" is everything up to the end of a first call on a thousand rows, that is interpreter, imports, sessions, whatever
is built once; "wall" and "cpu" are those of the same call on the data. With "-" for the first file, memory is measured,
of a process that makes this one call, as most do: the sum of the largest resident sizes of the processes that are alive
at the end. ENTRY is the file of an entry.
"""

import gzip
import importlib
import json
import os
import re
import sys
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree():
    """This process and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents[int(entry.name)] = int(fields[1])
    found, wanted = [], [os.getpid()]
    while wanted:
        process = wanted.pop()
        found.append(process)
        wanted.extend(child for child, parent in parents.items() if parent == process)
    return found


def cpu_seconds():
    """Processor time of the tree, with children that have ended."""
    total = time.process_time()
    for process in tree():
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        own = process == os.getpid()
        total += sum(map(int, fields[13:15] if own else fields[11:15])) / TICKS
    return total


def peak_megabytes():
    """Largest resident size of each process of the tree, added up."""
    total = 0
    for process in tree():
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
        except OSError:  # it has just ended
            continue
        total += int(found[1]) if found else 0
    return total / 1024


def pairs(released):
    """Keys and values of a dictionary, or of a table of Polars; of rows, each key has a list of values."""
    if isinstance(released, list):
        return [row[0] for row in released], [list(map(float, row[1:])) for row in released]
    if isinstance(released, dict):
        return list(released), [float(value) for value in released.values()]
    column = "estimate" if "estimate" in released.columns else "value"
    return released["key"].to_list(), [float(value) for value in released[column].to_list()]


def main():
    """Measure, and write what was released beside the measurements."""
    entry, function, file, first_file, keys_per_unit, epsilon, delta, started, output = sys.argv[1:]
    sys.path.insert(0, str(Path(entry).parent))
    call = getattr(importlib.import_module(Path(entry).stem), function)
    bound = [] if function == "by_rows" else [int(keys_per_unit)]
    request = [*bound, float(epsilon), float(delta)]
    if first_file == "-":
        released = call(file, *request)
        measured = {"peak": peak_megabytes()}
    else:
        call(first_file, *request)
        start = {"start_wall": time.time() - float(started), "start_cpu": cpu_seconds()}
        before, wall = cpu_seconds(), time.perf_counter()
        released = call(file, *request)
        wall = time.perf_counter() - wall
        measured = {**start, "wall": wall, "cpu": cpu_seconds() - before}
    keys, values = pairs(released)
    with gzip.open(output, "wt") as text:
        json.dump({"measured": measured, "keys": keys, "values": values}, text)


main()
