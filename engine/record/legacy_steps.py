"""Step → its numbers; where an older record lacks the fields, from the sentence that it wrote."""

from __future__ import annotations

import re
from typing import NamedTuple

from kernelkb.model.session import Step

_BENCH_SENTENCE = re.compile(
    r", (?P<baseline>(?:variant )?\S+) [0-9.]+ (?:us|ms|s) on (?P<workload>[a-z0-9-]+): "
    r"(?P<speedup>[0-9.e+-]+)x \[(?P<low>[0-9.e+-]+), (?P<high>[0-9.e+-]+)\] of \d+ pairs, "
    r"(?P<verdict>[a-z]+)"
)
_ADVICE_SENTENCE = re.compile(
    r"(?P<bottleneck>[a-z][a-z0-9]*(?:-[a-z0-9]+)*) \(confidence [0-9.]+\) -> "
)
_VALID_VERDICTS = (None, "faster", "slower", "inconclusive")


class BenchTiming(NamedTuple):
    """A valid bench."""

    speedup: float
    interval: tuple[float, float] | None
    baseline: str | None
    workload: str | None


def extract_timing(step: Step) -> BenchTiming | None:
    """Return what a bench measured; None where it measured nothing that is valid."""
    said = _BENCH_SENTENCE.search(step.found)
    verdict = step.verdict or (said["verdict"] if said else None)
    if step.status == "failure" or verdict not in _VALID_VERDICTS:
        return None
    baseline = step.baseline or (said["baseline"] if said else None)
    workload = step.workload or (said["workload"] if said else None)
    if step.speedup is not None:
        return BenchTiming(step.speedup, step.interval, baseline, workload)
    if said is None:
        return None
    interval = (float(said["low"]), float(said["high"]))
    return BenchTiming(float(said["speedup"]), interval, baseline, workload)


def extract_bottleneck(step: Step) -> str | None:
    """Return which bottleneck a recommendation names first; None where it names none."""
    said = _ADVICE_SENTENCE.match(step.found)
    return step.bottleneck or (said["bottleneck"] if said else None)
