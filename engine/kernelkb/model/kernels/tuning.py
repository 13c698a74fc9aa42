"""Defines the search space of a variant's tunables, and what a search tells beside its trials."""

from __future__ import annotations

import keyword
import math
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from kernelkb.model.base import Name, Record, Target
from kernelkb.model.records.measurement import Bench


class ValueConcentration(Record):
    """A value of a tunable at which rejections of one kind are more frequent than elsewhere."""

    tunable: str
    value: int
    rejected_count: int
    """Trials with this value that were rejected for this reason."""
    reached_count: int
    """Trials with this value that came as far as this gate."""


class Rejection(Record):
    """The trials that were not timed for one reason."""

    status: str
    """A ``TrialStatus`` other than ``timed``."""
    count: int
    share: float
    """Of all trials, 0 to 1."""
    reached_count: int
    """Trials that came as far as this gate, with those that it rejected."""
    example: str | None = None
    """The most frequent detail."""
    concentrations: tuple[ValueConcentration, ...] = ()
    """Each without the trials of those before it; empty where no value stands out."""


class ConvergencePoint(Record):
    """When a search first had a time within some share of the best one that it found."""

    within: float
    """0.05: within 5 % of the best; 0: the best itself."""
    trial_count: int
    """Trials until then, with that one."""
    device_s: float
    """Their time on the device."""


class SavedTime(Record):
    """A part of the time of a call, of the default and of the winner."""

    title: str
    default_us: float | None
    """None: below 2 % of the time."""
    winner_us: float | None
    saved_us: float
    """Below 0: the winner spends more here."""


class FactChange(Record):
    """Something of the compiled or running kernel that differs between default and winner."""

    metric: str
    """Id of a metric, or a kind of instruction."""
    title: str
    unit: str
    """``share``, ``bytes``, ``count`` or ``instructions`` of the machine code."""
    default: float
    winner: float


class GainExplanation(Record):
    """Why the winner is faster than the default configuration."""

    parts: tuple[SavedTime, ...] = ()
    """Largest change first; empty without counters."""
    changes: tuple[FactChange, ...] = ()
    """Largest ratio first."""
    no_counters: str | None = None
    """Why no counters were read."""
    cure: str | None = None
    reports: tuple[str, ...] = ()
    """The profiles of default and winner, which ``kb compare`` reads; empty if one has none."""


class LaneSummary(Record):
    """What one device did in a search on several."""

    uuid: str
    """``GPU-...`` as the driver names it; ``CPU-<host>`` for a host without a GPU."""
    host: str
    model: str
    baseline_us: float | None
    """Time of the default configuration on it, before the search; None where there is none."""
    trial_count: int
    available_s: float
    """Seconds during which it could have trials."""
    busy_share: float
    """Share of the search during which it had a trial, 0 to 1."""
    busy_share_while_queued: float | None
    """The same, of tasks that had been sent before the one before them ended; None without any."""
    left_out: str | None = None
    """Why it got no trials any more."""


EXPRESSION_FUNCTIONS: Final = {"ceil": math.ceil, "max": max, "min": min}
"""What an expression may call."""


def _check_macro(name: str) -> str:
    if keyword.iskeyword(name) or name in EXPRESSION_FUNCTIONS:
        raise ValueError(f"an expression cannot name the tunable {name!r}")
    return name


Macro = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=40),
    AfterValidator(_check_macro),
]
"""Name of a tunable: a macro that the compiler defines."""
Expression = Annotated[str, StringConstraints(min_length=1, max_length=400)]
"""Arithmetic and comparisons with tunables and axes of the workload; min, max and ceil."""

MAX_CONFIGURATIONS = 5_000_000
"""Most combinations of all values, feasible or not."""


class Constraint(Record):
    """A condition that each configuration has to meet."""

    require: Expression
    """True for a configuration that can run."""
    because: str
    """Why, in one line."""


class TuningSpace(Record):
    """What a variant lets be tuned. Each configuration is one build."""

    parameters: dict[Macro, tuple[int, ...]] = Field(min_length=1)
    """The values of each tunable, ascending; a switch has the values 0 and 1."""
    constraints: tuple[Constraint, ...] = ()
    threads: Expression | None = None
    """Threads of a block."""
    shared_bytes: Expression | None = None
    """Shared memory of a block in bytes, static and dynamic together."""
    registers: Expression | None = None
    """Registers of a thread that a configuration needs at least."""
    blocks: Expression | None = None
    """Blocks of the grid; excludes nothing, and tells the waves of the winner."""
    fixed_axes: tuple[Name, ...] = ()
    """Axes of the workload that trials are compiled for: each becomes a macro in upper case, so
    that less is compiled. The winner is judged without these macros."""
    default: dict[Macro, int] = Field(default_factory=dict)
    """What the source chooses without any macro. Empty: it chooses by the sizes, or not at all, and
    the winner is compared with the variant as it is."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        for name, values in self.parameters.items():
            if not values or list(values) != sorted(set(values)):
                raise ValueError(f"the values of {name} have to be distinct and ascending")
        if math.prod(map(len, self.parameters.values())) > MAX_CONFIGURATIONS:
            raise ValueError(f"more than {MAX_CONFIGURATIONS:,} combinations; remove some values")
        if self.default and self.default.keys() != self.parameters.keys():
            raise ValueError("the default names every tunable, or is left out")
        for name, value in self.default.items():
            if value not in self.parameters[name]:
                raise ValueError(f"the default of {name}, {value}, is none of its values")
        return self


TrialStatus = Literal[
    "timed",
    "incorrect",
    "refused",
    "unloadable",
    "crashed",
    "timed-out",
    "build-failed",
    "spills",
    "same-code",
]
"""How a trial ended. refused: its launcher returned an error. spills: registers went to memory.
same-code: its machine code is that of an earlier trial, whose time it has."""


class TuningTrial(Record):
    """One configuration that was built, and what came of it."""

    number: int
    """From 0, in the order of the proposals."""
    configuration: dict[Macro, int]
    status: TrialStatus
    detail: str | None = None
    """Why it was not timed, in one line."""
    time_us: float | None = None
    """Median of its samples."""
    samples_us: tuple[float, ...] = ()
    """Each the mean over many calls."""
    registers: int | None = None
    """Of a thread, of the kernel with most."""
    spill_bytes: int = 0
    code: str | None = None
    """Digest of its machine code."""
    lane: str | None = None
    """UUID of the device that timed it, in a search on several."""
    build_s: float = 0.0
    trial_s: float = 0.0
    """Time on the device, with the check."""


class ConfirmedConfiguration(Record):
    """One of the fastest configurations, measured again in turns with the others."""

    configuration: dict[Macro, int]
    time_us: float
    """Median over all rounds."""
    gain: float
    """Time of the default configuration ÷ its time."""
    low: float
    """Lower end of the 95 % interval of the gain."""
    high: float
    is_tie: bool
    """Whether its interval against the fastest one contains 1."""


class SpaceRuleCount(Record):
    """One rule of a space, and what it excludes."""

    rule: str
    because: str
    excluded_count: int
    """Combinations that it excludes, counted by itself."""


class TuningResult(Record):
    """What a search found."""

    kernel: str
    variant: str
    target: Target
    workload: str
    device: str
    combination_count: int
    feasible_count: int
    trials: tuple[TuningTrial, ...]
    confirmed: tuple[ConfirmedConfiguration, ...] = ()
    """Fastest first; empty if nothing could be timed."""
    default: dict[Macro, int] = Field(default_factory=dict)
    """The default configuration; empty: the variant as it is, without any macro."""
    default_us: float | None = None
    """Of the default configuration, in the same rounds."""
    bench: Bench | None = None
    """The judge's verdict on the fastest one; None if it was not asked for."""
    importance: dict[Macro, float] = Field(default_factory=dict)
    """Share of each tunable alone in the spread of the predicted times over the space."""
    resumed_count: int = 0
    """Trials of earlier runs that were not repeated."""
    seeds: tuple[dict[Macro, int], ...] = ()
    """Winners of earlier searches, which this one tried first."""
    rejections: tuple[Rejection, ...] = ()
    """Trials that were not timed, by reason; the most frequent first."""
    infeasible: tuple[SpaceRuleCount, ...] = ()
    """What excluded combinations before any trial, by rule."""
    convergence: tuple[ConvergencePoint, ...] = ()
    """Until within 5 %, within 1 %, and the best; empty if nothing was timed."""
    why: GainExplanation | None = None
    """Winner against default; None if it was not asked for, or if they are the same."""
    measurement: str | None = None
    """Id of the record of the winner, with which the next search begins."""
    unrecorded: str | None = None
    """Why the database or the open session has no entry of it."""
    seconds: float
    device_s: float
    """Time on the device."""
    journal: str
    """The file of the trials."""
    lanes: tuple[LaneSummary, ...] = ()
    """Of a search on several devices, those of this one's model."""

    @property
    def is_refused(self) -> bool:
        """Whether the judge found the fastest configuration wrong, or could not run it."""
        return self.bench is not None and self.bench.has_failed

    @property
    def winner(self) -> ConfirmedConfiguration | None:
        """The fastest configuration, if it is faster than the default beyond doubt, and right.

        Where the default has no time there is nothing to compare with.
        """
        first = self.confirmed[0] if self.confirmed else None
        if first is None or self.is_refused:
            return None
        return first if self.default_us is None or first.low > 1.0 else None


class TuningResults(Record):
    """What a search on several devices found: a result for each model."""

    results: tuple[TuningResult, ...]


class SpaceSummary(Record):
    """How large a space is."""

    combination_count: int
    feasible_count: int
    rules: tuple[SpaceRuleCount, ...]
