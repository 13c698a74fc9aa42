"""How evenly a cluster keeps its lanes busy: 1 to 16 pretend lanes of this host.

A trial is a pause of ``--trial-ms``, and the next task is always ready. The floor is the pause
itself: N lanes cannot do more than 1000 N / ``--trial-ms`` trials a second.

Run with ``python -m benchmarks.cluster_scaling --lanes 1,2,4,8,16``.
"""

from __future__ import annotations

import argparse
import time

from kernelkb.cluster.choice import parse_workers
from kernelkb.cluster.cluster import open_cluster

_QUEUED = 2


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", default="1,2,4,8,16")
    parser.add_argument("--trial-ms", type=float, default=100.0)
    parser.add_argument("--batch", type=int, default=5, help="trials of a task")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each count of lanes")
    options = parser.parse_args()
    print(f"{'lanes':>5} {'trials/s':>9} {'of the floor':>12} {'of N lanes':>10}")
    single = None
    for count in map(int, options.lanes.split(",")):
        rate = measure_rate(count, options.trial_ms / 1e3, options.batch, options.seconds)
        single = single or rate / count
        floor = count / (options.trial_ms / 1e3)
        print(f"{count:>5} {rate:>9.1f} {rate / floor:>12.2f} {rate / (count * single):>10.2f}")


def measure_rate(lane_count: int, trial_s: float, batch: int, seconds: float) -> float:
    """Return the trials a second of so many lanes, while builds are always ready.

    Args:
        lane_count: Pretend lanes.
        trial_s: Length of a trial, s.
        batch: Trials of one task.
        seconds: How long to measure, after every lane has run a task.
    """
    with open_cluster(parse_workers("auto"), pretend_count=lane_count) as cluster:
        lanes = [lane.uuid for lane in cluster.lanes]
        for lane in lanes:
            for _ in range(_QUEUED):
                cluster.submit_timed(lane, time.sleep, trial_s * batch)
        done, started = 0, None
        ready: set[str] = set()
        while started is None or time.monotonic() - started < seconds:
            for task in cluster.wait(1.0):
                cluster.submit_timed(task.lane, time.sleep, trial_s * batch)
                ready.add(str(task.lane))
                done += batch if started is not None else 0
            if started is None and len(ready) == lane_count:
                started = time.monotonic()
        return done / (time.monotonic() - started)


if __name__ == "__main__":
    main()
