"""Defines bottlenecks, the conditions and lines that show them, guards, and symptoms in logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from kernelkb.model.base import EvidenceLevel, Name, Quantity, Record, Slug, Target

Op = Literal["<", "<=", ">", ">=", "==", "!="]

LineQuantity = Literal[
    "samples", "executed", "idle-lanes", "divergent-branches", "sectors", "excess-sectors",
    "l1-passes", "excess-wavefronts",
]  # fmt: skip
"""What can be counted at an instruction, besides stalls.

executed: warps that executed it. idle-lanes: lanes that did not take part. sectors: of 32 bytes of
global memory; excess: those that a coalesced access of as many bytes would not need. l1-passes:
through shared memory or L1, of 128 bytes. excess-wavefronts: passes of bank conflicts."""
Stall = Literal[
    "stall:barrier", "stall:branch_resolving", "stall:dispatch_stall", "stall:drain",
    "stall:imc_miss", "stall:lg_throttle", "stall:long_scoreboard", "stall:math_pipe_throttle",
    "stall:membar", "stall:mio_throttle", "stall:no_instructions", "stall:short_scoreboard",
    "stall:sleeping", "stall:tex_throttle", "stall:wait",
]  # fmt: skip
"""Samples of warps that could not issue, by Nsight Compute's name of the reason."""

Group = Literal[
    "correctness",
    "build",
    "measurement",
    "system",
    "parallelism",
    "latency",
    "memory-traffic",
    "memory-transactions",
    "compute",
    "terminal",
]
"""In evaluation order."""


class Comparison(Record):
    """A comparison of one metric with a number, another quantity, or a threshold."""

    metric: Quantity
    op: Op
    value: float | Quantity | None = None
    threshold: Slug | None = None

    @model_validator(mode="after")
    def _require_one_limit(self) -> Self:
        if (self.value is None) == (self.threshold is None):
            raise ValueError("give exactly one of value and threshold")
        return self


class All(Record):
    """True if every part is true; false if any part is false; otherwise unknown."""

    all: tuple[Condition, ...] = Field(min_length=1)


class Any(Record):
    """True if any part is true; false if every part is false; otherwise unknown."""

    any: tuple[Condition, ...] = Field(min_length=1)


class Not(Record):
    """The negation of a condition; unknown stays unknown."""

    negated: Condition = Field(alias="not")


def _find_condition_tag(value: object) -> str:
    keys = set(value) if isinstance(value, dict) else {type(value).__name__.lower()}
    for word in ("all", "any", "not"):
        if word in keys:
            return word
    return "comparison"


Condition = Annotated[
    Annotated[All, Tag("all")]
    | Annotated[Any, Tag("any")]
    | Annotated[Not, Tag("not")]
    | Annotated[Comparison, Tag("comparison")],
    Discriminator(_find_condition_tag),
]

for _model in (All, Any, Not):
    _model.model_rebuild()


def iter_comparisons(condition: Condition) -> Iterator[Comparison]:
    """Yield every comparison of a condition, left to right."""
    match condition:
        case All(all=parts) | Any(any=parts):
            for part in parts:
                yield from iter_comparisons(part)
        case Not(negated=inner):
            yield from iter_comparisons(inner)
        case Comparison():
            yield condition


class LineEvidence(Record):
    """What is counted at instructions to find the lines of a bottleneck."""

    count: Literal[LineQuantity, Stall]
    """What to count."""
    operations: tuple[str, ...] = ()
    """Only at these, such as ``LDG`` or ``LDG.E.128``; empty: at all."""
    without: tuple[str, ...] = ()
    """Not at operations with one of these modifiers, such as ``"128"``."""
    producer: bool = False
    """Whether the cause is the instruction that is waited for, not the one that waits."""
    of: str
    """What the share is of, in words: ``the excess sectors``."""


class LookAlike(Record):
    """Another bottleneck with the same first symptoms; if ``when`` is true, it is the cause."""

    bottleneck: Slug
    when: Condition
    because: str


class Falsifier(Record):
    """What must hold after a fix; if it does not, the diagnosis was wrong: revert the change."""

    metric: Name
    op: Op
    value: float | Quantity
    """A number, a quantity, or the metric itself, which means its value before the change."""


class Case(Record):
    """Metrics and the verdict that they must give. The tests run every case."""

    name: str
    metrics: dict[Quantity, float]
    verdict: Literal["matches", "excluded", "unknown"]


class Bottleneck(Record):
    """One cause of slowness, with its condition, look-alikes, falsifier and fixes."""

    id: Slug
    title: str
    group: Group
    target: Target
    level: EvidenceLevel
    """The lowest evidence level at which it may be concluded."""
    definition: str
    when: Condition
    hint: Condition | None = None
    """Speaks for it while counters that ``when`` needs are missing: a match of coarse evidence."""
    hint_weight: float | None = Field(default=None, gt=0, lt=1)
    """Confidence of a match by the hint; None: that of ``calibration.yaml``. Below 0.3 the counters
    are asked for before a change, as where they choose among changes of different kinds."""
    data: Condition | None = None
    """What of the values of its inputs explains it. Decides nothing; what holds is told."""
    unless: tuple[LookAlike, ...] = ()
    symptom_of: tuple[Slug, ...] = ()
    """Bottlenecks that cause what it shows: where one of them matches with a gain, it comes first.
    """
    evidence: Literal["direct", "derived", "coarse", "pattern"]
    """How directly the condition shows the mechanism, from a counter of it to a mere hint."""
    falsifier: Falsifier | None = None
    confirm: str
    """How a person can confirm it."""
    lines: tuple[LineEvidence, ...] = ()
    """What finds its lines in a report; the first of which anything was counted. Empty: it lies in
    no line."""
    fixes: tuple[Slug, ...] = Field(min_length=1)
    """In the order to try them."""
    architecture_notes: str | None = None
    cases: tuple[Case, ...] = Field(min_length=2)
    sources: tuple[Slug, ...] = Field(min_length=1)


class Guard(Record):
    """A condition under which certain advice is suppressed, because it would be wrong."""

    id: Slug
    target: Target
    when: Condition
    groups: tuple[Group, ...] = ()
    bottlenecks: tuple[Slug, ...] = ()
    except_: tuple[Slug, ...] = Field(default=(), alias="except")
    fixes: tuple[Slug, ...] = ()
    """Fixes to suppress in every diagnosis."""
    widen: float | None = Field(default=None, gt=1)
    """Factor on the width of predicted intervals, to both sides; None: unchanged."""
    because: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class Claim(Record):
    """A conclusion that is allowed once the metrics that it needs are known."""

    say: str
    needs: tuple[Name, ...] = Field(min_length=1)


class LevelLimits(Record):
    """The conclusions that one evidence level allows, and those that it does not allow."""

    level: EvidenceLevel
    target: Target
    can: tuple[Claim, ...]
    cannot: tuple[str, ...]
    sources: tuple[Slug, ...] = Field(min_length=1)


class GuardCatalogue(Record):
    """The file ``guards.yaml``."""

    guards: tuple[Guard, ...] = ()
    levels: tuple[LevelLimits, ...] = ()


def _check_regex(pattern: str) -> str:
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    if compiled.match(""):
        raise ValueError("matches an empty log; it must contain at least one word")
    return pattern


Regex = Annotated[str, AfterValidator(_check_regex)]
"""A regular expression of Python's ``re`` with MULTILINE; named groups are captured."""


class CudaError(Record):
    """One error code of the CUDA runtime and driver."""

    code: int = Field(ge=1)
    names: tuple[str, ...] = Field(min_length=1)
    """In ``cudaError_t`` and ``CUresult``."""
    text: str
    """What cudaGetErrorString returns."""


class Symptom(Record):
    """One kind of failure: the log lines that show it, its cause and its cure."""

    id: Slug
    title: str
    log_patterns: tuple[Regex, ...] = ()
    """The symptom is found where any of these matches, anywhere in the log."""
    cuda_errors: tuple[CudaError, ...] = ()
    """It is also found where a log shows one of these by name, number or text."""
    fallback: bool = False
    """Whether it only names a family of errors: it is reported where no other error is found."""
    kind_only: bool = False
    """Whether its patterns take a whole class of messages (a status of a library, a type of
    exception, a failed assertion), so that the line does not settle the cause: the answer says so,
    ``cause`` is a choice, and ``check`` decides."""
    severity: Literal["error", "warning"] = "error"
    """Whether it stops the work, or only costs time or hides a cause; errors are told first."""
    unless: tuple[Slug, ...] = ()
    """More specific symptoms: a line that shows one of them does not count for this one."""
    consequence_of: tuple[Slug, ...] = ()
    """Symptoms that bring this one about: it is not reported where one of them is found."""
    cause: str
    cure: str
    """What to change."""
    check: str
    """How to confirm the cause, or that it is gone."""
    fixes: tuple[Slug, ...] = ()
    pattern: Slug | None = None
    """The pattern that avoids it; None without one."""
    explain: Literal["shared-memory", "device-memory"] | None = None
    """A note to compute from the captured values: whether the bytes fit the device."""
    example: str
    """An excerpt of a real log, in which the symptom is found."""
    captures: dict[str, str] = Field(default_factory=dict)
    """Values of the named groups in the example."""
    counterexample: str
    """Similar text of another meaning, in which the symptom must not be found."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_finds_something(self) -> Self:
        if not self.log_patterns and not self.cuda_errors:
            raise ValueError("needs log_patterns or cuda_errors")
        return self


class SymptomFamily(Record):
    """One file below ``symptoms/``."""

    family: Literal[
        "build", "setup", "nvcc", "ptxas", "link", "torch-extension", "triton", "driver", "runtime",
        "libraries", "nccl", "profilers", "dynamo", "correctness",
        "error-shape", "changed-steps", "hangs", "kernel-languages", "windows",
    ]  # fmt: skip
    """The tool that writes the messages: ``build`` a project's own, the last three our own."""
    symptoms: tuple[Symptom, ...] = Field(min_length=1)
