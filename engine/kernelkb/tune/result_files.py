"""Writes what a search found to files: a page, its trials as T4, a winner to a table."""

from __future__ import annotations

import json
from pathlib import Path

from kernelkb.errors import BadValueError
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult
from kernelkb.render.html.charts import place_convergence, place_intervals, place_values
from kernelkb.render.html.pages import fill_template
from kernelkb.render.text.measurements import describe_bench
from kernelkb.render.text.tuning import (
    describe_concentration,
    describe_next,
    describe_trials,
    format_configuration,
    format_convergence,
    format_gain_explanation,
    summarize_result,
)
from kernelkb.safety.files import replace_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import resolve_inside
from kernelkb.tune.best_table import BestEntry, load_table
from kernelkb.tune.plan import TuningPlan

_FOLDER_CURE = "name a file in a folder that exists"
_INVALIDITY = {"build-failed": "compile", "incorrect": "correctness", "timed-out": "timeout"}
"""The words of T4 for a trial without a time."""


def require_page_folder(path: Path) -> None:
    """Raise BadValueError where no page could be written, before a long search rather than after.

    Args:
        path: The file of the page.
    """
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise BadValueError(f"cannot write {path}: no such folder; {_FOLDER_CURE}")


def write_tuning_page(result: TuningResult, path: Path) -> int:
    """Write the page of a search, which replaces the file as a whole; return its size in bytes.

    Args:
        result: What the search found.
        path: The file; its folder must exist.

    Raises:
        BadValueError: The page cannot be written.
    """
    page = format_tuning_page(result).encode()
    try:
        replace_file(Path(resolve_inside(path, to_write=True)), page)
    except OSError as error:
        cure = describe_write_cure(error, _FOLDER_CURE)
        raise BadValueError(f"cannot write {path}: {error.strerror}; {cure}") from error
    return len(page)


def format_tuning_page(result: TuningResult) -> str:
    """Return the page of a search.

    Args:
        result: Of ``kernelkb.tune.tune.tune``.
    """
    confirmed = [
        (one, format_configuration(one.configuration), _name_place(result, one, at))
        for at, one in enumerate(result.confirmed)
    ]
    return fill_template(
        "tuning.html",
        result=result,
        summary=summarize_result(result),
        confirmed=confirmed,
        intervals=place_intervals(result.confirmed),
        bench=describe_bench(result.bench) if result.bench is not None else "",
        next_step=describe_next(result),
        why=format_gain_explanation(result.why) if result.why is not None else [],
        convergence=format_convergence(result)[1:],
        convergence_charts=list(place_convergence(result)),
        value_charts=list(place_values(result)),
        infeasible_count=result.combination_count - result.feasible_count,
        trials=describe_trials(result),
        describe_concentration=describe_concentration,
    )


def _name_place(result: TuningResult, one: ConfirmedConfiguration, at: int) -> str:
    if one.configuration == result.default:
        return "default"
    return "tie with the fastest" if one.is_tie else "fastest" if at == 0 else ""


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
    kernel = plan.bench_target.subject.kernel
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
        _add_entry(Path(resolve_inside(path, to_write=True)), entry)
    except ValueError as error:
        raise BadValueError(str(error)) from error
    except OSError as error:
        cure = describe_write_cure(error, "make it writable")
        raise BadValueError(f"{path} was not written: {error.strerror}; {cure}") from error


def _add_entry(path: Path, entry: BestEntry) -> None:
    """Add an entry to a table, in place of an older one for the same variant, sizes and device.

    Raises:
        OSError: The file cannot be written; it is then as it was.
        ValueError: The file is no such table.
    """
    kept = [one for one in load_table(path) if _identify(one) != _identify(entry)]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps({"entries": [*kept, entry]}, indent=1) + "\n")


def _identify(entry: BestEntry) -> tuple[object, ...]:
    sizes = tuple(sorted(entry["sizes"].items()))
    return entry["kernel"], entry["variant"], entry["device"], sizes
