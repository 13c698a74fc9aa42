"""Defines attempts: states of a variant's source, their parents, and what came of each."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from kernelkb.model.base import MeasurementId, Name, Record, SessionId, Slug, Target
from kernelkb.model.records.verdict import Verdict

AttemptId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Hash of what the attempt is: the kernel, the variant, its files and flags."""

FileDigest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""Of the content of a file."""

EventKind = Literal["build", "check", "bench", "profile", "recommend", "outcome", "restore", "note"]
"""note: ``found`` is what the author says of the change, after the state was kept."""

ChangeResult = Literal["faster", "slower", "no-gain", "undecided", "failed"]
"""Of a change: faster and slower are confirmed by the interval; no-gain: the interval ends below
1.02; undecided: the benches do not tell; failed: it does not compile, or is wrong."""

Recognition = Literal["said", "unconfirmed", "source", "code", "advice", "guess"]
"""How the fix of a change is known. said: by its author. unconfirmed: its author says so, and
neither the sources nor the machine code show it, or the machine code is the same. source, code: it
was advised, and the sources or the machine code show it. advice: it was advised, and nothing shows
whether it is. guess: it was not named, and sources and code look like it."""


class Attempt(Record):
    """One state of a variant. Equal states are one attempt, of any author."""

    id: AttemptId
    kernel: Name
    variant: Slug
    target: Target
    files: dict[str, FileDigest]
    """Digest of each file that the variant is made of, by its path in the project."""
    flags: tuple[str, ...] = ()
    parent: AttemptId | None = None
    """The state before; None for the first."""
    at: datetime
    said: str | None = None
    """What its author said that the change is."""
    session: SessionId | None = None


class AdvisedChange(Record):
    """The first fix of a recommendation."""

    bottleneck: Slug
    fix: Slug
    predicted: tuple[float, float, float] | None = None
    """Speedup low, point, high."""
    falsifier: str | None = None
    state: dict[str, float] = Field(default_factory=dict)
    """Causes and parts of the time then; see ``decide.similar``."""


class ChangeOutcome(Record):
    """What a change from one attempt to the next was, and what it gave."""

    parent: AttemptId
    fixes: tuple[Slug, ...] = ()
    """Fixes that the change applies, as far as it was recognised; empty: an unknown change."""
    recognised_by: Recognition | None = None
    lines: tuple[int, ...] = ()
    """Lines of the new source that changed, the first of each place."""
    advised: AdvisedChange | None = None
    """The advice for the parent."""
    bottleneck: Slug | None = None
    """What was found to bind before the change."""
    measured: float | None = None
    """Speedup of the change."""
    interval: tuple[float, float] | None = None
    result: ChangeResult
    why: str | None = None
    """Why it failed, or cannot be decided."""


class AttemptEvent(Record):
    """One thing that was done with an attempt."""

    id: MeasurementId
    attempt: AttemptId
    kernel: Name
    kind: EventKind
    at: datetime
    origin: str
    """The checkout: a hash of the machine's name and the project's folder."""
    status: Literal["ok", "warning", "failure"] = "ok"
    found: str = ""
    """The result in one line."""
    seconds: float = 0.0
    device: str | None = None
    workload: str | None = None
    measurement: MeasurementId | None = None
    verdict: Verdict | None = None
    candidate_us: float | None = None
    speedup: float | None = None
    """Over the baseline of the bench."""
    interval: tuple[float, float] | None = None
    code: str | None = None
    """Digest of the machine code of a build; None where it is not known."""
    counts: dict[str, float] = Field(default_factory=dict)
    """Instructions of some kinds in the machine code that a bench timed; see ``CodeCount``."""
    task: str | None = None
    """Digest of what judges: kernel.yaml and the reference."""
    advised: AdvisedChange | None = None
    outcome: ChangeOutcome | None = None


class AttemptTransfer(Record):
    """An attempt as it travels in an export: with its events, and its files if wanted."""

    attempt: Attempt
    events: tuple[AttemptEvent, ...] = ()
    files: dict[FileDigest, str] = Field(default_factory=dict)
    """Content by digest, compressed (zlib) and in base64."""
