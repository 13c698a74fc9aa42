"""Phases and tails of kernels whose inside is known, told from samples and from their own clocks.

    python -m benchmarks.planted_phases        (a GPU machine with nvcc and ncu: about a minute)

Each launch writes the global timer at the end of each phase, or where the work of each SM ends; ncu
samples counters of the same launch. A boundary is right within 5 % of the kernel's time; those told
as near to its beginning or end are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.kernel_phases import describe_timeline
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.model.answers.recommendation import KernelTimeline
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.report import read_report

SOURCE = Path(__file__).with_suffix(".cu")
INTERVAL_NS = 1000
TOLERANCE = 0.05
IDLE_SMS = 0.1
"""Share of the SMs that have ended where the tail begins."""

PHASES = [
    "read 400 arithmetic 30000",
    "arithmetic 30000 read 400",
    "write 400 arithmetic 30000",
    "arithmetic 30000 write 400",
    "cache 1500 arithmetic 30000",
    "read 400 cache 1500",
    "cache 1500 write 400",
    "read 400 write 400",
    "read 600 sleep 60",
    "sleep 60 arithmetic 40000",
    "read 300 arithmetic 20000 write 300",
    "arithmetic 20000 cache 1500 arithmetic 20000",
    "read 300 sleep 50 read 300",
    "write 300 read 300 cache 1500",
]
"""What each phase does, and how often."""
TAILS = [
    "264 30000 264 1",
    "264 30000 264 3",
    "132 60000 12 2",
    "600 15000 600 1",
    "1100 8000 100 4",
    "140 40000 140 1",
]
"""Blocks, steps of each, and that every so many blocks work so many times as long."""


def main() -> int:
    """Print what was told and what the kernels' clocks say, and how many are right."""
    cases = [*(f"phases {one}" for one in PHASES), *(f"tail {one}" for one in TAILS)]
    with tempfile.TemporaryDirectory() as folder:
        clocks, timelines = run_under_profiler(Path(folder), cases)
    right = 0
    for case, times_us, timeline in zip(cases, clocks, timelines, strict=True):
        told, known = compare(case, times_us, timeline)
        limit = TOLERANCE * (times_us[-1] if times_us else 0.0)
        is_right = len(told) == len(known) and all(
            abs(one - other) <= limit for one, other in zip(told, known, strict=False)
        )
        right += is_right
        rows = [" ".join(f"{one:.1f}" for one in row) or "nothing" for row in (told, known)]
        print(f"{'right' if is_right else 'WRONG'}  {case}: told {rows[0]} us, clocks {rows[1]} us")
    print(f"{right} of {len(cases)} are right within {TOLERANCE:.0%} of the kernel's time")
    return 0 if right == len(cases) else 1


def run_under_profiler(
    folder: Path, cases: Sequence[str]
) -> tuple[list[list[float]], list[KernelTimeline | None]]:
    """Return the clocks of each launch in microseconds, and what its samples tell."""
    program, report = folder / "planted", folder / "planted.ncu-rep"
    subprocess.run(
        ["nvcc", "-arch=native", "-O3", "-std=c++17", "-o", str(program), str(SOURCE)], check=True
    )
    ncu = [find_cuda_tool("ncu") or "ncu", "--section", "PmSampling", "--section", "SpeedOfLight"]
    options = ["--pm-sampling-interval", str(INTERVAL_NS), "-o", str(report), str(program)]
    done = subprocess.run(
        [*ncu, *options], input="\n".join(cases), text=True, check=True, capture_output=True
    )
    rows = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
    clocks = [[int(word) / 1e3 for word in row.split()] for row in rows]
    launches = read_report(report, list_raw_names(load_compiled_rules()))
    found = [describe_timeline(one.samples, one.metrics.get("profiled_us")) for one in launches]
    return clocks, found


def compare(
    case: str, times_us: Sequence[float], timeline: KernelTimeline | None
) -> tuple[list[float], list[float]]:
    """Return what was told and what is known: ends of phases, or length and cost of the tail."""
    if case.startswith("phases"):
        ends = [one["to_us"] for one in timeline["phases"][:-1]] if timeline else []
        near = TOLERANCE * times_us[-1]  # of the beginning and the end, where SMs start and stop
        told = [one for one in ends if near < one < times_us[-1] - near]
        return told, list(times_us[:-1])
    last = times_us[-1]
    known = [last - times_us[int(IDLE_SMS * len(times_us))], fmean(last - one for one in times_us)]
    if timeline is None or timeline["tail_us"] is None or timeline["lost_us"] is None:
        return [], known
    return [timeline["tail_us"], timeline["lost_us"]], known


if __name__ == "__main__":
    sys.exit(main())
