"""Replays a search on a recorded space, and writes the trials of a search as such a file."""

from __future__ import annotations

import json
from pathlib import Path

from kernelkb.errors import BadValueError
from kernelkb.model.kernels.tuning import SimulatedSearch, TuningResult
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import resolve_inside
from kernelkb.tune.best_table import BestEntry, store_entry
from kernelkb.tune.plan import TuningPlan, require_packages
from kernelkb.tune.recorded_space import read_recorded_space
from kernelkb.tune.replay import replay_search
from kernelkb.tune.strategies.table import find_strategy


def simulate_search(path: Path, strategy: str, seed: int, budget: int) -> SimulatedSearch:
    """Search a recorded space, without a device.

    Args:
        path: A cache of Kernel Tuner or a T4 file.
        strategy: A name in ``STRATEGIES``.
        seed: Of the draws.
        budget: Most measurements.

    Raises:
        BadValueError: The file is no recorded space.
        EnvironmentGapError: The packages of the extra ``tune`` are missing.
    """
    require_packages(strategy)
    recorded = read_recorded_space(path)
    played = replay_search(recorded, find_strategy(strategy).load()(recorded.space, seed), budget)
    return SimulatedSearch(
        space=path.name,
        strategy=strategy,
        seed=seed,
        configuration_count=len(recorded.times),
        best_time=recorded.best,
        found_time=min(played.best_times, default=None),
        trial_count=len(played.best_times),
        solved_at=played.solved_at,
    )


def export_trials(result: TuningResult, path: Path) -> None:
    """Write all trials in the T4 format, which autotuners exchange.

    Raises:
        BadValueError: The file cannot be written.
    """
    results = [
        {
            "configuration": trial.configuration,
            "times": {
                "compilation_time": trial.build_s * 1e3,
                "runtimes": [one / 1e3 for one in trial.samples_us],
            },
            "invalidity": "correct" if trial.time_us else _INVALIDITY.get(trial.status, "runtime"),
            "correctness": float(trial.time_us is not None),
            "measurements": [{"name": "time", "value": (trial.time_us or 0.0) / 1e3, "unit": "ms"}],
            "objectives": ["time"],
        }
        for trial in result.trials
    ]
    content = {"schema_version": "1.0.0", "results": results}
    try:
        Path(resolve_inside(path, to_write=True)).write_text(
            json.dumps(content, indent=1) + "\n", encoding="utf-8"
        )
    except OSError as error:
        cure = describe_write_cure(error, "make it writable")
        raise BadValueError(f"{path} was not written: {error.strerror}; {cure}") from error


def add_to_table(plan: TuningPlan, result: TuningResult, path: Path) -> None:
    """Add the winner to a table that a program loads at run time; see ``tune.best_table``.

    Raises:
        BadValueError: Nothing was confirmed, or the file is no table or cannot be written.
    """
    if not result.confirmed:
        raise BadValueError("no configuration was timed; the table stays as it is")
    winner = result.confirmed[0]
    kernel = plan.bench_target.subject.kernel_folder.kernel
    entry: BestEntry = {
        "kernel": result.kernel,
        "variant": result.variant,
        "sizes": dict(kernel.workloads[result.workload]),
        "device": result.device,
        "driver": plan.identity["driver"],
        "configuration": dict(winner.configuration),
        "time_us": winner.time_us,
        "verdict": result.bench.verdict if result.bench else "not judged",
    }
    try:
        store_entry(Path(resolve_inside(path, to_write=True)), entry)
    except ValueError as error:
        raise BadValueError(str(error)) from error
    except OSError as error:
        cure = describe_write_cure(error, "make it writable")
        raise BadValueError(f"{path} was not written: {error.strerror}; {cure}") from error


_INVALIDITY = {"build-failed": "compile", "incorrect": "correctness", "timed-out": "timeout"}
"""The words of T4 for a trial without a time."""
