"""Recommends the next fix or measurement from given metrics. Imports only fast modules."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernelkb.actions.advice.complete_answer import complete_answer
from kernelkb.actions.advice.next_steps import list_project_kernels
from kernelkb.actions.advice.raw_metrics import resolve_raw_names
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import find_metric_for_flag, parse_metric_value, resolve_device
from kernelkb.decide.recommend import build_recommendation, recommend
from kernelkb.errors import UnknownNameError
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.safety.paths import project_root, read_kernel_name

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.answers.recommendation import KernelAnswer, Recommendation
    from kernelkb.model.base import Target


TARGETS = ("cuda", "cpu")


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
        metrics: Values by metric id, as numbers or as typed text such as ``40%``; or by the name
            that Nsight Compute has, in its unit.
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
    device = resolve_device(program, gpu) if gpu else None
    if architecture or given:
        from kernelkb.actions.project.hardware import describe_device

        program, device = describe_device(program, gpu, architecture, given)
    typed = parse_given_metrics(program, metrics, headlines or {}, target)
    values = _measure_language(kernel, target) | typed
    peaks = read_peak_metrics(device)
    answer = recommend(program, values, target=target, device=device, kernel=kernel, peaks=peaks)
    return build_recommendation(program, [_complete(answer, kernel, target)])


def _measure_language(kernel: str, target: str) -> dict[str, float]:
    if not _is_known(kernel):
        return {}
    from kernelkb.actions.project.variant_language import (
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
        from kernelkb.actions.advice.edit_location import find_answered_variant  # reads kernel.yaml

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
) -> dict[str, float]:
    """Return given values by metric id, in the metrics' units; raw names of ncu are taken, too.

    Raises:
        UnknownNameError: A metric that does not exist.
        BadValueError: A value that its metric cannot have.
    """
    named = {find_metric_for_flag(program, flag, target): v for flag, v in headlines.items()}
    return {
        name: parse_metric_value(program, name, value)
        for name, value in {**named, **resolve_raw_names(program, metrics)}.items()
    }
