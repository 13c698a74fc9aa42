"""Time from ending a server during work until all of its processes are gone.

Run: python benchmarks/shutdown_cleanup.py [TIMES]

Each cell starts a server over stdio, waits until the work is under way, and ends it; it holds the
seconds until the last process of its tree was gone, the longest of so many times. After a cancelled
call the server itself continues, and only its children are counted. A cell shows LEFT where a
process stayed, or where files of a job did, except after SIGKILL of the server, which cannot remove
them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHUTDOWN_PROGRAM = ROOT / "tests" / "support" / "server_shutdowns.py"
ACTIVITIES = ("compiling", "running", "waiting", "job")
END_METHODS = ("cancel", "end of input", "SIGTERM", "SIGINT", "SIGHUP", "SIGKILL", "client SIGKILL")


def measure_cell(work: str, end_method: str, times: int) -> str:
    """Return the longest of ``times`` shutdowns, in seconds, or LEFT if anything remained."""
    longest = 0.0
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, str(SHUTDOWN_PROGRAM), work, end_method],
            capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT}/engine:{ROOT}/mcp_server"},
        )  # fmt: skip
        ending = json.loads(done.stdout)
        if ending["left"] or (ending["files"] and end_method != "SIGKILL"):
            return "LEFT"
        longest = max(longest, ending["seconds"])
    return f"{longest:.2f}"


def main() -> None:
    """Print the table; exit 1 when a process or file remained."""
    times = int(sys.argv[1]) if sys.argv[1:] else 1
    print(f"seconds until the last process was gone, the longest of {times}")
    print(f"{'':10}" + "".join(f"{how:>16}" for how in END_METHODS))
    cells: list[str] = []
    for work in ACTIVITIES:
        row = [measure_cell(work, how, times) for how in END_METHODS]
        cells += row
        print(f"{work:10}" + "".join(f"{one:>16}" for one in row), flush=True)
    sys.exit(int("LEFT" in cells))


if __name__ == "__main__":
    main()
