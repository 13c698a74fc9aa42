"""Creates measurements like those that a bench or a build records, without running any."""

import random
from datetime import UTC, datetime, timedelta
from math import exp

from kernelkb.model.records.history import SubjectRecord
from kernelkb.record.measurements.rows import create_measurement

START = datetime(2026, 11, 1, tzinfo=UTC)


def make_subject(variant="naive", kernel="row_softmax", workload="medium", device="A CPU", **more):
    given = {"target": "cpu", "sources": {"naive.cpp": variant}, "judge": "1.0", **more}
    return SubjectRecord(kernel=kernel, variant=variant, workload=workload, device=device, **given)


def make_bench(
    variant="naive", us=10.0, *, hours=0, baseline_us=30.0, seed=0, where=None, **fields
):
    """Return a bench of 31 pairs around two times in microseconds, ``hours`` after ``START``."""
    draw = random.Random(f"{seed} {hours} {us}")
    spreads = [draw.gauss(0, 0.01) for _ in range(15)]
    logs = [0.0, *spreads, *(-spread for spread in spreads)]  # the median is the time itself
    pairs = tuple((us * exp(one), baseline_us) for one in logs)
    ratio = baseline_us / us
    given = {
        "verdict": "faster",
        "candidate_us": us,
        "baseline": "torch",
        "baseline_us": baseline_us,
        "speedup": ratio,
        "interval": (0.995 * ratio, 1.005 * ratio),
        "timing": "eager",
        "samples": pairs,
        **fields,
    }
    at = START + timedelta(hours=hours)
    return create_measurement("bench", at, make_subject(variant, **(where or {})), **given)


def make_build(variant="naive", hours=0, **where):
    at = START + timedelta(hours=hours)
    return create_measurement(
        "build", at, make_subject(variant, **where), status="built", seconds=0.5
    )
