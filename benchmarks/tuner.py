"""Counts the measurements that each search needs on recorded spaces, without a GPU.

``python -m benchmarks.tuner FILE... [--seeds N] [--kernel-tuner]``: a FILE is a cache of Kernel
Tuner or a T4 file. Solved: a time within 5 % of the best. With ``--kernel-tuner`` its strategies
run on the same files, where the package is installed and the file is its cache.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelkb.tune.recorded_space import RecordedSpace, read_recorded_space
from kernelkb.tune.replay import STRATEGIES, replay_search

_BUDGET = 400
_TOLERANCE = 0.05
_KERNEL_TUNER_STRATEGIES = ("hybrid_vndx", "basinhopping", "genetic_algorithm", "pso")


def main() -> None:
    """Print a row for each space and strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--kernel-tuner", action="store_true")
    options = parser.parse_args()
    print(f"{'space':32} {'strategy':28} {'median':>7} {'mean':>7} {'solved':>7} {'s a run':>8}")
    for file in options.files:
        recorded = read_recorded_space(file)
        rows = [
            *_play_ours(recorded, options.seeds),
            *(_play_kernel_tuner(file, recorded, options.seeds) if options.kernel_tuner else ()),
        ]
        for name, counts, seconds in rows:
            solved = [one for one in counts if one is not None]
            capped = [one if one is not None else _BUDGET for one in counts]
            median = statistics.median(capped)
            print(
                f"{file.name[:32]:32} {name:28} {median:7.0f} {statistics.mean(capped):7.1f} "
                f"{len(solved):3d}/{len(counts):3d} {seconds / len(counts):8.2f}",
                flush=True,
            )


def _play_ours(
    recorded: RecordedSpace, seeds: int
) -> Iterator[tuple[str, list[int | None], float]]:
    for name, start in STRATEGIES.items():
        started = time.monotonic()
        counts = [
            replay_search(recorded, start(recorded.space, seed), _BUDGET, _TOLERANCE).solved_at
            for seed in range(seeds)
        ]
        yield name, counts, time.monotonic() - started


def _play_kernel_tuner(
    file: Path, recorded: RecordedSpace, seeds: int
) -> Iterator[tuple[str, list[int | None], float]]:
    """Run Kernel Tuner's simulation mode on its own cache."""
    try:
        from kernel_tuner import tune_kernel  # type: ignore[import-not-found]
    except ImportError as error:
        raise SystemExit("--kernel-tuner needs: pip install kernel-tuner") from error
    raw = file.read_bytes()
    content: dict[str, Any] = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    target = recorded.best * (1 + _TOLERANCE)
    names = [name for name, values in content["tune_params"].items() if len(values) > 1]
    known = {tuple(one[name] for name in names) for one in content["cache"].values()}
    restriction = f"({', '.join(names)}) in {known!r}"  # a cache does not hold the constraints
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(content), encoding="utf-8")
        for strategy in _KERNEL_TUNER_STRATEGIES:
            counts: list[int | None] = []
            started = time.monotonic()
            for _ in range(seeds):
                results, _ = tune_kernel(
                    content["kernel_name"],
                    "",
                    content.get("problem_size", 1),
                    [],
                    content["tune_params"],
                    restrictions=[restriction],
                    simulation_mode=True,
                    cache=str(cache),
                    strategy=strategy,
                    strategy_options={"max_fevals": _BUDGET},
                    quiet=True,
                )
                counts.append(_find_solved([one["time"] for one in results], target))
            yield f"kernel_tuner {strategy}", counts, time.monotonic() - started


def _find_solved(times: list[Any], target: float) -> int | None:
    """Return the number of the first measurement at or below the target."""
    for number, value in enumerate(times[:_BUDGET], 1):
        if isinstance(value, int | float) and value <= target:
            return number
    return None


if __name__ == "__main__":
    main()
