"""Formats the trials of a search while it runs: one line for each, under a header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernelkb.model.kernels.tuning import TuningTrial

_HEADER_INTERVAL = 30
_GATE_WIDTH = 12
_START_WIDTH = 44
"""Columns before the first tunable."""
PASSED = "passed"


class TrialTable:
    """Formats each trial of one search as a row: number, time, speedup, gate, best, tunables."""

    def __init__(
        self,
        values: Mapping[str, Sequence[int]],
        default: Mapping[str, int],
        earlier: Sequence[TuningTrial] = (),
    ) -> None:
        """Start a table.

        Args:
            values: The values of each tunable.
            default: The default configuration; empty if there is none.
            earlier: Trials of runs before, which may hold the time of the default.
        """
        self._names = {name: _split_name(name) for name in values}
        self._widths = {
            name: max(len(word) for word in (*self._names[name], *map(str, values[name])))
            for name in values
        }
        self._default = dict(default)
        self._default_us: float | None = None
        self._row_count = 0
        for trial in earlier:
            self._note_default(trial)

    def format_trial(self, trial: TuningTrial, best: TuningTrial | None) -> list[str]:
        """Return the row of a trial; before the first and each thirtieth one, the header.

        The speedup is over the default configuration, once that is timed.

        Args:
            trial: The one that ended.
            best: The fastest so far; a trial that is the fastest itself has a star.
        """
        self._note_default(trial)
        rows = [] if self._row_count % _HEADER_INTERVAL else list(self._format_header())
        self._row_count += 1
        timed = trial.status == "timed" and trial.time_us is not None
        time_text = _format_time(trial.time_us) if timed and trial.time_us else ""
        is_best = timed and best is not None and best.number == trial.number
        best_text = _format_time(best.time_us) if best and best.time_us else ""
        values = " ".join(
            f"{trial.configuration.get(name, ''):>{width}}" for name, width in self._widths.items()
        )
        start = (
            f"{trial.number:>5} {time_text:>7} {self._format_speedup(trial):>7} "
            f"{_describe_gate(trial):{_GATE_WIDTH}} {best_text:>7}{'*' if is_best else ' '}"
        )
        return [*rows, f"{start:{_START_WIDTH}}{values}".rstrip()]

    def _note_default(self, trial: TuningTrial) -> None:
        if self._default and trial.configuration == self._default and trial.time_us:
            self._default_us = trial.time_us

    def _format_speedup(self, trial: TuningTrial) -> str:
        if trial.status != "timed" or not trial.time_us or self._default_us is None:
            return ""
        return f"{self._default_us / trial.time_us:.2f}x"

    def _format_header(self) -> Iterator[str]:
        """Yield the names of the columns; a name of several words stands in several lines."""
        height = max(map(len, self._names.values()), default=1)
        start = f"{'trial':>5} {'time':>7} {'speedup':>7} {'gate':{_GATE_WIDTH}} {'best':>7}"
        for line in range(height):
            words = []
            for name, width in self._widths.items():
                parts = self._names[name]
                at = line - (height - len(parts))
                words.append(f"{parts[at] if at >= 0 else '':>{width}}")
            yield f"{start if line == height - 1 else '':{_START_WIDTH}}{' '.join(words)}".rstrip()


def _describe_gate(trial: TuningTrial) -> str:
    return PASSED if trial.status == "timed" else trial.status


def _format_time(us: float) -> str:
    """Return a time with three digits: 14.4 us. Trials are too short for more."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= 0.9995 * size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


def _split_name(name: str) -> list[str]:
    """Return the words of a tunable: ``BLOCK``, ``M``."""
    return [word for word in name.split("_") if word]
