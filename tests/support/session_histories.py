"""Creates sessions with known true shares, for tests of learning from sessions."""

import random
from datetime import UTC, datetime
from math import exp

from shipped_rules import knowledge

from kernelkb.actions.sessions.learn import make_entry_lookup
from kernelkb.model.entries.learned import PRIOR_SHARE
from kernelkb.model.records.session import Decision, Session, SessionEntry, Step

is_known = make_entry_lookup(knowledge())
"""Whether the shipped knowledge has a bottleneck and a fix."""
DAY = datetime(2026, 11, 1, tzinfo=UTC)


def make_decision(share=0.5, estimate=0.5, assumed=PRIOR_SHARE, **more):
    """Return a decision that realised ``share`` of its estimate; ``more`` overrides any field.

    The estimate is the logarithm of a speedup.
    """
    measured, point = exp(share * estimate), exp(assumed * estimate)
    fields = {
        "bottleneck": "uncoalesced-global-access",
        "fix": "remap-threads-coalesced",
        "applied_as": "after",
        "predicted": (1.0, point, exp(estimate)),
        "predicted_by": "effects",
        "calibration": assumed,
        "measured": measured,
        "interval": (measured * 0.99, measured * 1.01),
        "falsifier": "x 1 > 0",
        "falsifier_held": True,
        "falsifier_could_fail": True,
    }
    return Decision(**{**fields, **more})


def make_session(name, *decisions, cc="9.0", steps=(), kind="recorded", kernel="k", **more):
    """Return a session with one entry, on a GPU; on a CPU when ``cc`` is None."""
    entry = SessionEntry(
        session=name,
        at=DAY,
        goal="g",
        kernel=kernel,
        target="cuda" if cc else "cpu",
        cc=cc,
        decisions=decisions,
        steps=tuple(Step(name=n, status="ok", found="", seconds=s) for n, s in steps),
        **more,
    )
    return Session(session=name, opened=DAY, goal="g", kind=kind, entries=(entry,))


def make_history(seed, count, share, cc="9.0", assumed=PRIOR_SHARE):
    """Return ``count`` sessions of one decision each; ``share(rng)`` draws its realised share."""
    rng = random.Random(seed)
    return [
        make_session(f"s{number}", make_decision(share(rng), rng.uniform(0.2, 0.7), assumed), cc=cc)
        for number in range(count)
    ]
