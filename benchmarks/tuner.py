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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelkb.errors import BadValueError
from kernelkb.safety.workspace import read_bytes
from kernelkb.tune.space import EnumeratedSpace
from kernelkb.tune.strategies.gaussian_process import build_prior
from kernelkb.tune.strategies.model_search import ModelSearch
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


class RecordedSpace(NamedTuple):
    """A space and the time of each of its configurations."""

    space: EnumeratedSpace
    times: NDArray[np.float64]
    """(configurations,), in the unit of the record; infinity: it failed."""

    @property
    def best(self) -> float:
        """The smallest time."""
        return float(self.times.min())


def read_recorded_space(path: Path) -> RecordedSpace:
    """Read a Kernel Tuner cache or a T4 file, gzipped or not.

    Args:
        path: The file. A cache maps configurations to times under ``cache``; T4 lists
            ``results`` with a ``configuration`` and ``measurements`` each.

    Raises:
        BadValueError: It cannot be read, has neither form, or no configuration succeeded.
    """
    try:
        raw = read_bytes(path)
        content = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        results = _list_results(content)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadValueError(
            f"{path} is no recorded space: {error}; Kernel Tuner's cache and T4 files are read"
        ) from error
    if not any(math.isfinite(time) for _, time in results):
        raise BadValueError(f"no configuration of {path} has a time")
    names = tuple(results[0][0])
    values = tuple(tuple(sorted({one[name] for one, _ in results})) for name in names)
    positions = [{value: position for position, value in enumerate(choices)} for choices in values]
    rows = np.array(
        [
            [ranks[one[name]] for name, ranks in zip(names, positions, strict=True)]
            for one, _ in results
        ]
    )
    count = math.prod(len(choices) for choices in values)
    times = np.array([time for _, time in results])
    return RecordedSpace(EnumeratedSpace(names, values, rows, count, ()), times)


def _list_results(content: Mapping[str, Any]) -> list[tuple[dict[str, Any], float]]:
    """Return each configuration and its time."""
    if "cache" in content:
        names = content["tune_params_keys"]
        return [
            ({name: one[name] for name in names}, _parse_time(one["time"]))
            for one in content["cache"].values()
        ]
    return [
        (
            one["configuration"],
            _parse_time(one["measurements"][0]["value"])
            if one["invalidity"] == "correct"
            else math.inf,
        )
        for one in content["results"]
    ]


def _parse_time(value: object) -> float:
    """Return a time; what is no number, 0 or huge is the mark of a failed configuration."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    time = float(value) if is_number else math.inf  # type: ignore[arg-type]
    return time if 0 < time < 1e19 else math.inf


class ReplayedSearch(NamedTuple):
    """One search on a recorded space."""

    best_times: list[float]
    """The best time after each measurement; failed configurations count as one."""
    solved_at: int | None
    """Measurements until a time within the tolerance of the best; None: not reached."""


def replay_search(
    recorded: RecordedSpace,
    search: Search,
    budget: int,
    tolerance: float = 0.05,
    outstanding: int = 1,
) -> ReplayedSearch:
    """Return how a search went, until it came near the best time or the budget was used.

    Results arrive in the order of the proposals.

    Args:
        recorded: The space, with all times.
        search: A new search over it.
        budget: Most measurements.
        tolerance: Share above the best time that counts as solved.
        outstanding: Proposals without a result at a time, as with several devices.
    """
    target = recorded.best * (1 + tolerance)
    best_times: list[float] = []
    best = float("inf")
    waiting: deque[int] = deque()
    for _ in range(budget):
        while len(waiting) < outstanding and (proposal := search.propose()) is not None:
            waiting.append(proposal)
        if not waiting:
            break
        index = waiting.popleft()
        time = float(recorded.times[index])
        search.record(index, time if time < float("inf") else None)
        best = min(best, time)
        best_times.append(best)
        if best <= target:
            return ReplayedSearch(best_times, len(best_times))
    return ReplayedSearch(best_times, None)


if __name__ == "__main__":
    main()
