"""Lost and repeated entries of a session file after random kills of its writers.

Run: python benchmarks/session_crash_safety.py [WRITERS APPENDS]

Each row starts new writers, kills one of them every few milliseconds on average and starts
another in its place, until each has appended all its entries. An append is acknowledged once it
returned. An entry without acknowledgement was written whole by a writer that was killed before it
could report. Reading fails on a torn entry, so a printed row means that there is none.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kernelkb.record.sessions import read_session

ROOT = Path(__file__).parents[1]
WRITERS_PROGRAM = ROOT / "tests" / "support" / "killed_writers.py"
KILL_EVERY_MS = (1000, 100, 30, 10)


def measure_row(writers: int, appends: int, every_ms: int) -> str:
    """Return one row: kills, acknowledged, lost, doubled and unacknowledged entries, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        words = [folder, str(writers), str(appends), str(every_ms / 1e3), "1"]
        done = subprocess.run(
            [sys.executable, str(WRITERS_PROGRAM), *words],
            capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        told = json.loads(done.stdout)
        started = time.monotonic()
        there = collections.Counter(entry.goal for entry in read_session("s", Path(folder)).entries)
        took = time.monotonic() - started
    acknowledged = told["acknowledged"]
    lost = sum(there[goal] == 0 for goal in acknowledged)
    twice = sum(count > 1 for count in there.values())
    unsaid = len(set(there) - set(acknowledged))
    return (
        f"{every_ms:>10} {told['killed']:>7} {len(acknowledged):>13} {lost:>5} {twice:>6} "
        f"{unsaid:>18} {told['seconds']:>10.1f} {took:>7.1f}"
    )


def main() -> None:
    """Print one row for each mean time between kills."""
    writers, appends = [int(word) for word in sys.argv[1:3]] or [8, 500]
    print(f"{writers} writers, {appends} appends each")
    print("   kill ms  killed  acknowledged  lost  twice  whole, not said  write s  read s")
    for every_ms in KILL_EVERY_MS:
        print(measure_row(writers, appends, every_ms))


if __name__ == "__main__":
    main()
