"""Times of ``kb bench`` beside those of other timers, on ten operations, or ten over 4 GB and more.

    python benchmarks/timing_cross_check/run.py --target cuda
    python benchmarks/timing_cross_check/run.py --target cuda --large --budget 0.7
    python benchmarks/timing_cross_check/run.py --target cpu

Each operation is a task whose candidate is its own model, so ``kb bench`` has nothing to prefer
and its verdict should be ``inconclusive``. Two other timers then time the same model on the same
kind of inputs in a process of their own, without a judge:

- ``do_bench``: ``triton.testing.do_bench``, which clears the L2 cache before each call. On a CPU
  ``torch.utils.benchmark``, whose calls find their data in the cache as far as it fits.
- ``cold``: the method of NVBench's cold measurement: the cache is flushed, a kernel that waits
  holds the stream until the call is launched, events stand right around the call, and calls are
  repeated until their mean is known to 0.5 % or the time is used up. On a CPU the cache is flushed,
  too.

A ratio is the time of ``kb bench`` over that of the timer; 1 is agreement. On a CPU the first timer
is compared with the warm time of ``kb bench`` and the second with the cold one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.process.worker_jobs import worker_python

PEER_TIMERS = Path(__file__).with_name("peer_timers.py")
TASKS = Path(__file__).with_name("tasks")
BENCH_TIMEOUT_S = 900.0
PEER_TIMEOUT_S = 300.0


class Row(NamedTuple):
    """Times of one operation, microseconds a call."""

    name: str
    verdict: str
    cold_us: float
    warm_us: float
    do_bench_us: float
    flushed_us: float


def main() -> None:
    """Print one row for each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of timing for each task")
    parser.add_argument("--large", action="store_true", help="the tasks over 4 GB and more")
    parser.add_argument("--only", action="append", help="name of a task; default: all of a size")
    options = parser.parse_args()
    found = sorted(path.stem for path in TASKS.glob("*.py"))
    names = options.only or [n for n in found if n.endswith("_large") == options.large]
    print(f"{'task':<22}{'verdict':<14}{'kb cold us':>11}{'kb warm us':>11}{'do_bench us':>12}"
          f"{'cold us':>10}{'kb/do_bench':>12}{'kb/cold':>9}", flush=True)  # fmt: skip
    rows = []
    for name in names:
        try:
            row = _time_task(TASKS / f"{name}.py", options.target, options.budget)
        except (subprocess.SubprocessError, ValueError, KeyError) as error:
            print(f"{name:<22}failed: {error}", flush=True)
            continue
        rows.append(row)
        _print_row(row, options.target)
    if rows:
        first, second = zip(*(_ratios(row, options.target) for row in rows), strict=True)
        print(f"median ratios {statistics.median(first):.3f} {statistics.median(second):.3f}, "
              f"largest {max(first):.3f} {max(second):.3f}, "
              f"smallest {min(first):.3f} {min(second):.3f}")  # fmt: skip
    sys.exit(int(len(rows) < len(names)))


def _time_task(task: Path, target: str, budget_s: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder) / "candidate.py"
        text = task.read_text(encoding="utf-8").replace("class Model(", "class ModelNew(")
        candidate.write_text(text, encoding="utf-8")
        bench = _run_json(
            [
                *(sys.executable, "-c", "import sys; from kernelkb.cli import main; main()"),
                *("bench", "--task", str(task), "--candidate", str(candidate)),
                *("--target", target, "--budget", str(budget_s), "--json"),
            ],
            folder,
            BENCH_TIMEOUT_S,
        )
    if bench.get("candidate_us") is None:
        raise ValueError(f"{bench.get('verdict')}: {bench.get('detail')}")
    peer = [worker_python(), str(PEER_TIMERS), str(task), "--target", target]
    times = _run_json(peer, None, PEER_TIMEOUT_S)
    return Row(
        task.stem,
        str(bench["verdict"]),
        float(bench["candidate_us"]),
        float(bench["warm_us"]),
        float(times["do_bench_us"]),
        float(times["cold_us"]),
    )


def _run_json(command: list[str], folder: str | None, timeout_s: float) -> dict[str, float | str]:
    environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1"}  # its time is not looked at here
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=timeout_s
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise ValueError(lines[-1]) from None
    return dict(answer)


def _ratios(row: Row, target: str) -> tuple[float, float]:
    """Return the ratios to both timers; the first is of the same kind of call: warm on a CPU."""
    first_us = row.warm_us if target == "cpu" else row.cold_us
    return first_us / row.do_bench_us, row.cold_us / row.flushed_us


def _print_row(row: Row, target: str) -> None:
    first, second = _ratios(row, target)
    print(f"{row.name:<22}{row.verdict:<14}{row.cold_us:>11.1f}{row.warm_us:>11.1f}"
          f"{row.do_bench_us:>12.1f}{row.flushed_us:>10.1f}{first:>12.3f}{second:>9.3f}",
          flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
