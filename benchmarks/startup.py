"""Time to start ``kb recommend``, against the bare interpreter of the same environment.

Run: python benchmarks/startup.py [runs]
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

KB_PROGRAM = "import sys; from kernelkb.cli import start; sys.exit(start())"
RECOMMEND_ARGS = ["recommend", "--speedup", "0.3", "--occupancy", "0.4"]
COMMANDS = {
    "python -c pass (the floor)": ["-c", "pass"],
    "import argparse, json": ["-c", "import argparse, json"],
    "kb recommend, four flags": [
        "-c",
        KB_PROGRAM,
        *RECOMMEND_ARGS,
        "--bandwidth",
        "0.2",
        "--kernel-us",
        "50",
    ],
    "kb recommend --json": ["-c", KB_PROGRAM, *RECOMMEND_ARGS, "--json"],
    "kb --help": ["-c", KB_PROGRAM, "--help"],
    "import pydantic": ["-c", "import pydantic"],
    "import networkx": ["-c", "import networkx"],
    "import mcp": ["-c", "import mcp"],
}
LISTED_IMPORTS = 5


def main(runs: int) -> None:
    """Print median, range and ratio to the floor of each command, then the slowest imports."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "XDG_CACHE_HOME": cache}
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(runs):  # interleaved: other load on the machine hits every row
            for name, argv in COMMANDS.items():
                times[name] += measure_ms(argv, 1, env)
        floor = statistics.median(next(iter(times.values())))
        print(f"{'command':32} {'median ms':>10} {'min':>8} {'max':>8} {'x floor':>8}")
        for name, found in times.items():
            middle = statistics.median(found)
            row = f"{middle:10.1f} {min(found):8.1f} {max(found):8.1f} {middle / floor:8.2f}"
            print(f"{name:32} {row}")
        print(f"\nslowest {LISTED_IMPORTS} imports of kb recommend, self time")
        for cost, module in find_slowest_imports(env):
            print(f"{cost / 1e3:10.2f} ms  {module}")


def measure_ms(argv: list[str], runs: int, env: dict[str, str]) -> list[float]:
    """Return wall times in milliseconds, without the first run, which fills the caches."""
    times: list[float] = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *argv], env=env, capture_output=True, check=False)
        times.append((time.perf_counter() - start) * 1e3)
    return times[1:]


def find_slowest_imports(env: dict[str, str]) -> list[tuple[int, str]]:
    """Return self time in microseconds and module name of the slowest imports, slowest first."""
    argv = [sys.executable, "-X", "importtime", "-c", KB_PROGRAM, *RECOMMEND_ARGS]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    found = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", done.stderr)
    return sorted(((int(cost), name) for cost, name in found), reverse=True)[:LISTED_IMPORTS]


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 21)
