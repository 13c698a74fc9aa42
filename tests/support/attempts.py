"""Attempts and events for tests, each a minute after the one before."""

from datetime import UTC, datetime, timedelta

from kernelkb.model.records.history import ChangeOutcome
from kernelkb.record.attempt_store import create_attempt, create_event, digest_content

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
DEVICE, WORKLOAD = "A GPU", "medium"


def make_attempt(text, minute, parent=None, kernel="scale", variant="naive", **fields):
    """Return an attempt with one source file, and the content of it."""
    content = text.encode()
    one = create_attempt(
        kernel=kernel,
        variant=variant,
        target="cuda",
        files={f"kernels/{kernel}/{variant}.cu": digest_content(content)},
        at=START + timedelta(minutes=minute),
        parent=parent,
        **fields,
    )
    return one, content


def make_step(attempt, kind, minute, **fields):
    """Return an event of an attempt."""
    given = {"origin": "here", "seconds": 2.0, "device": DEVICE, **fields}
    at = START + timedelta(minutes=minute, seconds=30)
    return create_event(attempt=attempt.id, kernel=attempt.kernel, kind=kind, at=at, **given)


def make_timing(attempt, minute, us, **fields):
    """Return a bench of an attempt."""
    given = {"workload": WORKLOAD, "verdict": "faster", "candidate_us": us, **fields}
    return make_step(attempt, "bench", minute, **given)


def make_outcome(attempt, minute, result, fixes=("unroll-ilp",), **fields):
    """Return what a change gave."""
    gain = {"faster": 1.5, "slower": 0.7, "no-gain": 1.0}.get(result)
    given = {
        "recognised_by": "said",
        "measured": gain,
        "interval": (gain * 0.99, gain * 1.01) if gain else None,
        **fields,
    }
    outcome = ChangeOutcome(parent=attempt.parent, fixes=fixes, result=result, **given)
    return make_step(attempt, "outcome", minute, outcome=outcome, seconds=0.0)
