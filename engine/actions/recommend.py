"""Metrics → the next fix, or what to measure. Imports nothing that is slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelkb.actions.rules_cache import decision_program
from kernelkb.decide.parse_metric import device_named, metric_for_flag, parse
from kernelkb.decide.recommend import recommend as decide
from kernelkb.decide.recommend import recommendation
from kernelkb.errors import UnknownNameError

if TYPE_CHECKING:
    from kernelkb.decide.answer import Recommendation
    from kernelkb.decide.rules import Program


TARGETS = ("cuda", "cpu")


def recommend(
    metrics: Mapping[str, str | float],
    *,
    headlines: Mapping[str, str | float] | None = None,
    target: str = "cuda",
    gpu: str | None = None,
    kernel: str = "",
) -> Recommendation:
    """Answer for one kernel.

    Args:
        metrics: Values by metric id, as numbers or as somebody typed them.
        headlines: Values by headline flag: speedup, bandwidth, occupancy, kernel-us.
        target: ``cuda`` or ``cpu``: which hardware the numbers come from.
        gpu: Any name of the GPU, or None.
        kernel: The kernel's name, for the answer.

    Raises:
        UnknownNameError: A metric, GPU or target that does not exist.
        BadValueError: A value that its metric cannot have.
        KnowledgeError: The knowledge itself is wrong.
    """
    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS, "kb recommend --help")
    program = decision_program()
    device = device_named(program, gpu) if gpu else None
    values = given_metrics(program, metrics, headlines or {}, target)
    answer = decide(program, values, target=target, device=device, kernel=kernel)
    return recommendation(program, [answer])


def given_metrics(
    program: Program,
    metrics: Mapping[str, str | float],
    headlines: Mapping[str, str | float],
    target: str,
) -> dict[str, float]:
    """Return what somebody gave, by metric id and in the metrics' units.

    Raises:
        UnknownNameError: A metric that does not exist.
        BadValueError: A value that its metric cannot have.
    """
    named = {metric_for_flag(program, flag, target): v for flag, v in headlines.items()}
    return {name: parse(program, name, value) for name, value in {**named, **metrics}.items()}
