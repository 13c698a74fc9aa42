"""Counts the measurements that each search needs on recorded spaces, without a GPU.

``python -m benchmarks.tuner FILE... [--seeds N] [--outstanding N] [--elsewhere FILE]
[--strategies NAME...] [--kernel-tuner [NAME...]]``: a FILE is a cache of Kernel Tuner or a T4 file.
Solved: a time within 5 % of the best. ``--outstanding``: so many proposals wait for a result at a
time. ``--elsewhere``: the same tunables recorded on another device or workload; a search of 120
trials there, with another seed, is the prior of a further strategy. With ``--kernel-tuner`` its
strategies run on the same files, where the package is installed and the file is its cache.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelkb.tune.recorded_space import RecordedSpace, read_recorded_space
from kernelkb.tune.replay import replay_search
from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.model_search import ModelSearch
from kernelkb.tune.strategies.predictions import build_prior
from kernelkb.tune.strategies.table import STRATEGIES, Search

_BUDGET = 400
_TOLERANCE = 0.05
_TRIALS_ELSEWHERE = 120
_KERNEL_TUNER_STRATEGIES = ("hybrid_vndx", "basinhopping", "genetic_algorithm", "pso")


def main() -> None:
    """Print a row for each space and strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--outstanding", type=int, default=1)
    parser.add_argument("--elsewhere", type=Path)
    parser.add_argument("--strategies", nargs="*", choices=list(STRATEGIES), default=STRATEGIES)
    parser.add_argument("--kernel-tuner", nargs="*", metavar="NAME")
    options = parser.parse_args()
    print(f"{'space':32} {'strategy':28} {'median':>7} {'mean':>7} {'solved':>7} {'s a run':>8}")
    for file in options.files:
        recorded = read_recorded_space(file)
        strategies: dict[str, Callable[[EnumeratedSpace, int], Search]] = {
            name: STRATEGIES[name].load() for name in options.strategies
        }
        if options.elsewhere:
            strategies["model, prior"] = _start_with_prior(read_recorded_space(options.elsewhere))
        rows = _play_ours(recorded, strategies, options.seeds, options.outstanding)
        if options.kernel_tuner is not None:
            names = options.kernel_tuner or _KERNEL_TUNER_STRATEGIES
            rows = itertools.chain(rows, _play_kernel_tuner(file, recorded, options.seeds, names))
        for name, counts, seconds in rows:
            solved = [one for one in counts if one is not None]
            capped = [one if one is not None else _BUDGET for one in counts]
            median = statistics.median(capped)
            print(
                f"{file.name[:32]:32} {name:28} {median:7.0f} {statistics.mean(capped):7.1f} "
                f"{len(solved):3d}/{len(counts):3d} {seconds / len(counts):8.2f}",
                flush=True,
            )


def _start_with_prior(elsewhere: RecordedSpace) -> Callable[[EnumeratedSpace, int], Search]:
    """Return what starts the model with a search elsewhere as its prior."""

    def start(space: EnumeratedSpace, seed: int) -> Search:
        search = STRATEGIES["model"].load()(elsewhere.space, seed + 1000)
        trials: list[tuple[dict[str, int], float | None]] = []
        while len(trials) < _TRIALS_ELSEWHERE and (index := search.propose()) is not None:
            time = float(elsewhere.times[index])
            trials.append(
                (elsewhere.space.get_configuration(index), time if math.isfinite(time) else None)
            )
            search.record(index, trials[-1][1])
        prior = build_prior(space, [trials])
        return ModelSearch(space, seed, prior=prior)

    return start


def _play_ours(
    recorded: RecordedSpace,
    strategies: Mapping[str, Callable[[EnumeratedSpace, int], Search]],
    seeds: int,
    outstanding: int,
) -> Iterator[tuple[str, list[int | None], float]]:
    for name, start in strategies.items():
        started = time.monotonic()
        counts = [
            replay_search(
                recorded, start(recorded.space, seed), _BUDGET, _TOLERANCE, outstanding
            ).solved_at
            for seed in range(seeds)
        ]
        yield name, counts, time.monotonic() - started


def _play_kernel_tuner(
    file: Path, recorded: RecordedSpace, seeds: int, strategies: Sequence[str]
) -> Iterator[tuple[str, list[int | None], float]]:
    """Run Kernel Tuner's simulation mode on its own cache."""
    try:
        from kernel_tuner import interface  # type: ignore[import-not-found]
    except ImportError as error:
        raise SystemExit("--kernel-tuner needs: pip install kernel-tuner") from error
    raw = file.read_bytes()
    content: dict[str, Any] = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    target = recorded.best * (1 + _TOLERANCE)
    names = [name for name, values in content["tune_params"].items() if len(values) > 1]
    known = {tuple(one[name] for name in names) for one in content["cache"].values()}
    restriction = f"({', '.join(names)}) in {known!r}"  # a cache does not hold the constraints
    built = interface.Searchspace(content["tune_params"], [restriction], 1024)
    interface.Searchspace = lambda *_, **__: built  # else every run parses the restriction
    for one in content["cache"].values():
        one["times"] = [one["time"]]  # every run reads the file
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(content), encoding="utf-8")
        for strategy in strategies:
            counts: list[int | None] = []
            started = time.monotonic()
            for _ in range(seeds):
                results, _ = interface.tune_kernel(
                    content["kernel_name"],
                    "",
                    content.get("problem_size", 1),
                    [],
                    content["tune_params"],
                    simulation_mode=True,
                    cache=str(cache),
                    strategy=strategy,
                    strategy_options={"max_fevals": _BUDGET},
                    quiet=True,
                )
                counts.append(_find_solved(results, names, target))
            yield f"kernel_tuner {strategy}", counts, time.monotonic() - started


def _find_solved(
    results: Sequence[Mapping[str, Any]], names: Sequence[str], target: float
) -> int | None:
    """Return the number of the first measurement at or below the target; repeats do not count."""
    seen = {tuple(one[name] for name in names): one["time"] for one in reversed(results)}
    order = dict.fromkeys(tuple(one[name] for name in names) for one in results)
    for number, key in enumerate(itertools.islice(order, _BUDGET), 1):
        if isinstance(seen[key], int | float) and seen[key] <= target:
            return number
    return None


if __name__ == "__main__":
    main()
