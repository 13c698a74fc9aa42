"""Recommends the next change from numbers, and completes any answer: history, place, next steps.

``recommend`` decides from metrics alone; ``complete_answer`` is the one place that adds to it, and
returns a new answer. What it needs of a file or the database is read before, by the caller, and
modules that are slow to import are imported only where there is something for them to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernelkb.actions.advice.next_steps import (
    TAKE_IN,
    MeasuredPlace,
    complete_next_steps,
    list_project_kernels,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.next_measurement import list_own_commands, strip_kernel_signature
from kernelkb.decide.parse_metric import find_metric_for_flag, parse_metric_value, resolve_device
from kernelkb.decide.recommend import build_recommendation, recommend
from kernelkb.errors import BadValueError, NextStep, UnknownNameError
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.safety.paths import project_root, read_kernel_name

if TYPE_CHECKING:
    from kernelkb.actions.advice.apply_history import KernelHistory
    from kernelkb.actions.advice.code_location import AnsweredVariant
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.answers.recommendation import (
        Diagnosis,
        KernelAnswer,
        Reason,
        Recommendation,
    )
    from kernelkb.model.base import Target
    from kernelkb.model.records.measurement import InputData
    from kernelkb.sass.counters import SourceCounters

_RAW_NAME = re.compile(r"[a-z0-9]+__\w+")
"""How the names of Nsight Compute begin: unit, two underscores, counter."""
_VALUE = re.compile(r"(?P<number>[-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?)\s*(?P<unit>%|[A-Za-z/]*)")

_HIGHEST_SHARE = 1.05
"""A hardware counter can exceed its peak slightly, but not by more."""

TARGETS = ("cuda", "cpu")


def complete_answer(
    answer: KernelAnswer,
    *,
    counters: SourceCounters | str | None = None,
    history: KernelHistory | str | None = None,
    subject: AnsweredVariant | None = None,
    measured: Collection[str] = (),
    known_kernels: Collection[str] | None = None,
    data: Sequence[InputData] = (),
) -> KernelAnswer:
    """Return an answer with lines, with the order of what was tried, and with steps to follow.

    Args:
        answer: Of ``recommend``; it stays as it is.
        counters: What its launch counted by instruction, or why nothing was; None: no report.
        history: What was tried on the kernel, or why that is not known; None: there is no history.
        subject: The variant that was measured; None: none of the project.
        measured: Commands of ``kb`` whose result the answer has seen already.
        known_kernels: Names for which commands that take a kernel by name work; None: for each.
        data: What its inputs look like; reasons that are from one name it.
    """
    found = _name_inputs(answer, data) if data else answer
    if known_kernels is not None:
        found = _keep_working_commands(found, known_kernels, is_known=subject is not None)
    if history is not None:
        from kernelkb.actions.advice.apply_history import apply_history  # opens databases

        found = apply_history(found, history)
    if counters is not None:
        from kernelkb.actions.advice.code_location import add_source_lines  # reads machine code

        found = add_source_lines(load_compiled_rules(), found, counters)
    place = MeasuredPlace({}, measured)
    if subject is not None:
        from kernelkb.actions.advice.code_location import locate_edit, name_measured

        found, place = locate_edit(found, subject), name_measured(subject, measured)
    # A stop that the history gives names its own way back.
    is_stopped = found["gate"]["verdict"] == "stop" and found["gate"] is answer["gate"]
    return {**found, "next": complete_next_steps(found["next"], place, is_stopped=is_stopped)}


def _name_inputs(answer: KernelAnswer, data: Sequence[InputData]) -> KernelAnswer:
    """Return an answer whose reasons name the input that their value is of."""
    from kernelkb.model.records.measurement import choose_telling

    telling = choose_telling(data)
    diagnoses: list[Diagnosis] = []
    for row in answer["diagnoses"]:
        because: list[Reason] = [
            {**one, "input": telling[one["metric"]].name} if one["metric"] in telling else one
            for one in row["because"]
        ]
        diagnoses.append({**row, "because": because})
    return {**answer, "diagnoses": diagnoses}


def _keep_working_commands(
    answer: KernelAnswer, known: Collection[str], *, is_known: bool
) -> KernelAnswer:
    """Leave out commands that take the kernel by name, where the project does not have it.

    Args:
        answer: For a kernel of a report.
        known: Names of the project's kernels.
        is_known: Whether one of them is the kernel, under another name than that of its function.
    """
    name = strip_kernel_signature(answer["kernel"])
    if name in known:
        return answer
    own = list_own_commands(load_compiled_rules(), name, "cuda")
    kept = [row for row in answer["measure_next"] if row["command"] not in own]
    steps = answer["next"]
    if not is_known:
        steps = [*(step for step in steps if not isinstance(step, NextStep)), TAKE_IN]
    return {**answer, "measure_next": kept, "next": steps}


def resolve_raw_names(
    rules: CompiledRules, metrics: Mapping[str, str | float], notes: list[str] | None = None
) -> dict[str, str | float]:
    """Return given values by metric id; those under a raw name are converted to the metric's unit.

    A value under the metric's own id comes before one under a raw name, and of several raw names
    of a metric the preferred one comes first, as in a report.

    Args:
        rules: The compiled rules, with the raw names of each metric.
        metrics: Values by metric id, raw name, or title on the pages of Nsight Compute; a raw value
            is in the unit that Nsight Compute prints without a prefix (percent, ns, bytes), or
            names it, as ``1.5 ms``.
        notes: Where given, gets a note on counters from which no metric is read, which are left
            out as long as another value is given.

    Raises:
        UnknownNameError: A name of Nsight Compute that no metric is read from.
        BadValueError: A raw value that is not a number, or above 100 %, or a share that may be
            meant as one or as percent.
    """
    known = rules["metrics"]
    found: dict[str, str | float] = {}
    raw = {name: value for name, value in metrics.items() if name not in known}
    for metric, row in rules["raw_names"].items() if raw else ():
        is_share = known[metric]["unit"] == "share"
        for name in _list_names(row["names"], row["titles"], raw):
            value = _convert(name, raw.pop(name), row["scale"], is_ambiguous=is_share)
            if is_share and value > _HIGHEST_SHARE:
                above = f"{name} is {100 * value:g} %, more than its peak"
                raise BadValueError(f"{above}; measure it again")
            found.setdefault(metric, value)
    for name in [name for name in raw if _RAW_NAME.match(name)]:
        if notes is None or len(raw) == len(metrics):
            names = [name for row in rules["raw_names"].values() for name in row["names"]]
            raise UnknownNameError("metric of Nsight Compute", name, names, "show", id="metrics")
        notes.append(f"no metric is read from {name}, so it is left out")
        del raw[name]
    given = {name: value for name, value in metrics.items() if name in known or name in raw}
    return {**found, **given}


def _list_names(
    names: Sequence[str], titles: Sequence[str], given: Collection[str]
) -> Iterator[str]:
    """Yield those of the given names that are raw names, or titles in any way of writing them."""
    yield from [name for name in names if name in given]
    wanted = {_simplify(title.partition("/")[2]) for title in titles}
    yield from [name for name in given if name not in names and _simplify(name) in wanted]


def _simplify(title: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", title.lower()))


def _convert(name: str, value: str | float, scale: float, *, is_ambiguous: bool) -> float:
    """Return a raw value in the metric's unit.

    Args:
        name: Raw, or a title.
        value: As typed.
        scale: From the raw value to the metric's unit.
        is_ambiguous: Whether it is a share, so that people write 0.4 for 40 % under a title.
    """
    from kernelkb.profiles.launch import base_scale

    parts = _VALUE.fullmatch(str(value).strip())
    if parts is None:
        problem = f"{name} {str(value)[:40]!r} is not a number; write {name}=43, as ncu prints it"
        raise BadValueError(problem)
    unit, number = parts["unit"], float(parts["number"].replace(",", ""))
    if is_ambiguous and not unit and 0 < number <= 1 and not _RAW_NAME.match(name):
        percent = f"write {name}={100 * number:g}% or {name}={number:g}%"
        raise BadValueError(f"{name} is {value}: a share, or percent as ncu prints it? {percent}")
    return number * scale * base_scale(unit)


def recommend_from_metrics(
    metrics: Mapping[str, str | float],
    *,
    headlines: Mapping[str, str | float] | None = None,
    target: str = "cuda",
    gpu: str | None = None,
    architecture: str | None = None,
    given: Mapping[str, str | float] = MappingProxyType({}),
    kernel: str = "",
) -> Recommendation:
    """Return the recommendation for one kernel.

    Args:
        metrics: As of ``resolve_raw_names``; numbers, or typed text such as ``40%``.
        headlines: Values by headline flag: speedup, bandwidth, occupancy, kernel-us.
        target: ``cuda`` or ``cpu``: the hardware that the numbers come from.
        gpu: Any name of the GPU, or None.
        architecture: ``10.3`` or ``sm_103``: that of a GPU that is not listed.
        given: Numbers of such a GPU; see ``kernelkb.actions.project.hardware.GIVEN_FACTS``.
        kernel: The kernel's name, for the answer.

    Raises:
        UnknownNameError: A metric, GPU or target that does not exist.
        BadValueError: A value that its metric cannot have.
    """
    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS, "recommend --help")
    kernel, program = read_kernel_name(kernel), load_compiled_rules()
    notes: list[str] = []
    device = resolve_device(program, gpu) if gpu else None
    if architecture or given:
        from kernelkb.actions.project.hardware import describe_device

        program, device = describe_device(program, gpu, architecture, given)
    values = _measure_language(kernel, target)
    values |= parse_given_metrics(program, metrics, headlines or {}, target, notes)
    peaks = read_peak_metrics(device)
    found = recommend(program, values, target=target, device=device, kernel=kernel, peaks=peaks)
    found = {**found, "notes": [*notes, *found["notes"]]}
    return build_recommendation(program, [_complete(found, kernel, target)])


def _measure_language(kernel: str, target: str) -> dict[str, float]:
    if not _is_known(kernel):
        return {}
    from kernelkb.actions.project.bench_target import (
        measure_language_by_name,  # reads kernel.yaml
    )

    return measure_language_by_name(kernel, _get_target(target))


def _is_known(kernel: str) -> bool:
    return bool(kernel) and kernel in list_project_kernels()


def _get_target(name: str) -> Target:
    return "cpu" if name == "cpu" else "cuda"


def _complete(answer: KernelAnswer, kernel: str, target: str) -> KernelAnswer:
    """Return an answer in the order of what was tried, with steps that can be followed."""
    history, subject = None, None
    project = find_project_with_history(kernel) if kernel else None
    if project is not None:
        from kernelkb.actions.advice.apply_history import read_history  # opens a database

        history = read_history(project, kernel)
    if _is_known(kernel):
        from kernelkb.actions.advice.code_location import find_answered_variant  # reads kernel.yaml

        subject = find_answered_variant(kernel, _get_target(target))
    complete = complete_answer(answer, history=history, subject=subject)
    if project is None:
        return complete
    from kernelkb.actions.advice.apply_history import keep_first_fix

    return keep_first_fix(project, complete, history)


def find_project_with_history(kernel: str) -> Path | None:
    """Return the project, if it has a kernel of this name, and a history; looks at files only."""
    project = Path(project_root())
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", kernel):
        return None
    has_history = "KB_DATABASE" in os.environ or (project / ".kb" / "measurements.db").exists()
    has_kernel = (project / "kernels" / kernel / "kernel.yaml").exists()
    return project if has_history and has_kernel else None


def parse_given_metrics(
    program: CompiledRules,
    metrics: Mapping[str, str | float],
    headlines: Mapping[str, str | float],
    target: str,
    notes: list[str] | None = None,
) -> dict[str, float]:
    """Return given values by metric id, in the metrics' units; raw names of ncu are taken, too.

    Args:
        program: The compiled rules.
        metrics: As of ``resolve_raw_names``.
        headlines: Values by headline flag.
        target: ``cuda`` or ``cpu``.
        notes: As of ``resolve_raw_names``.

    Raises:
        UnknownNameError: A metric that does not exist.
        BadValueError: A value that its metric cannot have.
    """
    named = {find_metric_for_flag(program, flag, target): v for flag, v in headlines.items()}
    return {
        name: parse_metric_value(program, name, value)
        for name, value in {**named, **resolve_raw_names(program, metrics, notes)}.items()
    }
