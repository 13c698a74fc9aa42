"""Draws a search as SVG: the best time so far, and the times at each value of each tunable."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernelkb.model.kernels.tuning import TuningResult, TuningTrial
from kernelkb.render.html.report_text import escape_text
from kernelkb.units import format_duration

_WIDTH, _HEIGHT = 460, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 10, 38
"""Margins of the picture, which hold its labels."""
_SMALL_WIDTH, _SMALL_HEIGHT, _SMALL_BOTTOM = 230, 170, 34
_SHOWN_FACTOR = 4.0
"""Times above this multiple of the best are drawn at the upper edge."""
_MAX_TITLES = 1500
"""Trials whose configuration a page tells under the pointer; it is half of the page."""
_STEPS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_LEAST_TICKS = 3


class _Scale(NamedTuple):
    """A linear or logarithmic axis: values, and where they stand in the picture."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def locate(self, value: float) -> float:
        """Return the position of a value; outside of the axis, that of its end."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def list_ticks(self) -> list[float]:
        """Return about five round values on the axis."""
        if not self.is_log:
            step = _round_step((self.high - self.low) / 5)
            return [
                step * at for at in range(math.ceil(self.low / step), 1 + int(self.high / step))
            ]
        power = 10.0 ** math.floor(math.log10(self.low))
        every = [power * scale * one for scale in (1, 10, 100) for one in _STEPS[:-1]]
        shown = [one for one in every if self.low <= one <= self.high]
        return shown if len(shown) <= 2 * _LEAST_TICKS else shown[:: len(shown) // _LEAST_TICKS]


def _round_step(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(one for one in (1, 2, 5, 10) if value <= one * power)


def format_convergence_charts(result: TuningResult) -> Iterator[str]:
    """Yield each trial and the best so far, over the trials and over the time on the device."""
    times = [one.time_us for one in result.trials if one.time_us]
    if not times:
        return
    seconds, sums = 0.0, []
    for trial in result.trials:
        seconds += trial.trial_s
        sums.append(seconds)
    yield from _format_convergence(result, [float(at + 1) for at in range(len(sums))], "trials")
    if seconds > 0:
        yield from _format_convergence(result, sums, "seconds on the device")


def _format_convergence(
    result: TuningResult, positions: Sequence[float], unit: str
) -> Iterator[str]:
    best_us = min(one.time_us for one in result.trials if one.time_us)
    xs = _Scale(0.0, positions[-1], _LEFT, _WIDTH - _RIGHT)
    ys = _make_time_scale(result, best_us, _HEIGHT - _BOTTOM)
    said = f"best time so far over {unit}: {format_duration(best_us)} in the end"
    yield f'<figure><svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
    yield f'aria-label="{said}">'
    yield from _format_frame(xs, ys)
    if result.default_us:
        at = ys.locate(result.default_us)
        yield f'<line class="default" x1="{_LEFT}" y1="{at}" x2="{_WIDTH - _RIGHT}" y2="{at}"/>'
    yield from _format_points(result.trials, positions, xs, ys)
    yield f'<polyline class="best" points="{_trace_best(result.trials, positions, xs, ys)}"/>'
    yield f"</svg><figcaption>{unit}</figcaption></figure>"


def _make_time_scale(result: TuningResult, best_us: float, bottom: float) -> _Scale:
    times = [one.time_us for one in result.trials if one.time_us]
    high = min(max(*times, result.default_us or 0.0, 1.1 * best_us), _SHOWN_FACTOR * best_us)
    return _Scale(0.97 * best_us, max(high, 1.02 * (result.default_us or 0.0)), bottom, _TOP, True)


def _format_frame(xs: _Scale, ys: _Scale) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for value in xs.list_ticks():
        at = xs.locate(value)
        yield f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{bottom}"/>'
        yield f'<text x="{at}" y="{bottom + 22}" text-anchor="middle">{value:g}</text>'
    yield from _format_time_ticks(ys, _WIDTH - _RIGHT)


def _format_time_ticks(ys: _Scale, right: float) -> Iterator[str]:
    for value in ys.list_ticks():
        at = ys.locate(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{at}" x2="{right}" y2="{at}"/>'
        yield f'<text x="{_LEFT - 5}" y="{at + 4}" text-anchor="end">{_format_tick(value)}</text>'


def _format_tick(us: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


def _format_points(
    trials: Sequence[TuningTrial], positions: Sequence[float], xs: _Scale, ys: _Scale
) -> Iterator[str]:
    """Yield a dot for each timed trial, and a tick below the axis for each rejected one."""
    bottom = _HEIGHT - _BOTTOM
    has_titles = len(trials) <= _MAX_TITLES
    for trial, position in zip(trials, positions, strict=True):
        x = xs.locate(position)
        if trial.status == "timed" and trial.time_us:
            place = f'class="trial" cx="{x}" cy="{ys.locate(trial.time_us)}" r="2.5"'
            title = f"<title>{_describe_trial(trial)}</title>" if has_titles else ""
            yield f"<circle {place}>{title}</circle>" if title else f"<circle {place}/>"
        elif trial.status != "same-code":
            yield f'<line class="rejected" x1="{x}" y1="{bottom + 2}" x2="{x}" y2="{bottom + 8}"/>'


def _describe_trial(trial: TuningTrial) -> str:
    values = " ".join(f"{name}={value}" for name, value in trial.configuration.items())
    return escape_text(f"{trial.number}: {format_duration(trial.time_us or 0.0)}, {values}")


def _trace_best(
    trials: Sequence[TuningTrial], positions: Sequence[float], xs: _Scale, ys: _Scale
) -> str:
    """Return the corners of the best time so far."""
    corners: list[tuple[float, float]] = []
    best = math.inf
    for trial, position in zip(trials, positions, strict=True):
        if trial.time_us and trial.time_us < best:
            if corners:
                corners.append((xs.locate(position), corners[-1][1]))
            best = trial.time_us
            corners.append((xs.locate(position), ys.locate(best)))
    corners.append((xs.locate(positions[-1]), corners[-1][1]))
    return " ".join(f"{x},{y}" for x, y in corners)


def format_value_charts(result: TuningResult) -> Iterator[str]:
    """Yield a picture for each tunable: at each value the times' quartiles, median and best."""
    timed = [one for one in result.trials if one.status == "timed" and one.time_us]
    if not timed:
        return
    names = [*result.importance, *timed[0].configuration]
    best_us = min(one.time_us or math.inf for one in timed)
    ys = _make_time_scale(result, best_us, _SMALL_HEIGHT - _SMALL_BOTTOM)
    for name in dict.fromkeys(names):
        groups: dict[int, list[float]] = {}
        for one in timed:
            groups.setdefault(one.configuration[name], []).append(one.time_us or 0.0)
        if len(groups) > 1:
            yield from _format_values(name, dict(sorted(groups.items())), ys)


def _format_values(name: str, groups: dict[int, list[float]], ys: _Scale) -> Iterator[str]:
    told = ", ".join(
        f"{value}: {format_duration(statistics.median(times))} of {len(times)}"
        for value, times in groups.items()
    )
    label = escape_text(f"median time by {name}: {told}")
    yield f'<figure><svg class="chart" viewBox="0 0 {_SMALL_WIDTH} {_SMALL_HEIGHT}" role="img" '
    yield f'aria-label="{label}">'
    yield from _format_time_ticks(ys, _SMALL_WIDTH - _RIGHT)
    step = (_SMALL_WIDTH - _LEFT - _RIGHT) / len(groups)
    for at, (value, times) in enumerate(groups.items()):
        yield from _format_box(_LEFT + (at + 0.5) * step, min(0.6 * step, 26), value, times, ys)
    yield f"</svg><figcaption><code>{escape_text(name)}</code></figcaption></figure>"


def _format_box(
    middle: float, width: float, value: int, times: Sequence[float], ys: _Scale
) -> Iterator[str]:
    """Yield the box of one value: its quartiles and median, a dot for the best, and the count."""
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    low, median, high = (ys.locate(min(max(one, min(times)), max(times))) for one in quarters)
    left, right = round(middle - width / 2, 1), round(middle + width / 2, 1)
    title = f"{len(times)} trials, median {format_duration(statistics.median(times))}"
    yield f'<rect class="quartiles" x="{left}" y="{high}" width="{right - left:.1f}" '
    yield f'height="{max(low - high, 1.0):.1f}"><title>{title}</title></rect>'
    yield f'<line class="median" x1="{left}" y1="{median}" x2="{right}" y2="{median}"/>'
    yield f'<circle class="trial" cx="{middle:.1f}" cy="{ys.locate(min(times))}" r="2.5"/>'
    bottom = _SMALL_HEIGHT - _SMALL_BOTTOM
    yield f'<text x="{middle:.1f}" y="{bottom + 15}" text-anchor="middle">{value}</text>'
    yield f'<text class="count" x="{middle:.1f}" y="{bottom + 28}" text-anchor="middle">'
    yield f"{len(times)}</text>"


def format_interval(low: float, high: float, point: float, edges: tuple[float, float]) -> str:
    """Return an interval of a gain as a small picture on a common axis.

    Args:
        low: Lower end.
        high: Upper end.
        point: The gain.
        edges: Ends of the axis of all intervals; 1 gets a line where it lies between them.
    """
    xs = _Scale(*edges, 4, 176)
    one = xs.locate(1.0)
    mark = f'<line class="grid" x1="{one}" y1="1" x2="{one}" y2="19"/>'
    return (
        '<svg class="interval" viewBox="0 0 180 20" aria-hidden="true">'
        f"{mark if edges[0] <= 1.0 <= edges[1] else ''}"
        f'<line class="best" x1="{xs.locate(low)}" y1="10" x2="{xs.locate(high)}" y2="10"/>'
        f'<circle class="trial" cx="{xs.locate(point)}" cy="10" r="3.5"/></svg>'
    )
