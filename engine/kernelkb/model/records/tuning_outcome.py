"""Defines what a search tells beside its trials: rejections, convergence, why the winner wins."""

from __future__ import annotations

from kernelkb.model.base import Record


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
