"""Computes where things lie in the charts that ``templates/charts.html`` draws."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.render.html.pages import cut_text, format_number, format_share
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import TimeShare
    from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial

_PART_LOOKS = {
    "memory": "t-memory", "l1": "t-l1", "compute": "t-compute", "launch": "t-launch",
    "fill": "t-fill", "unexplained": "t-other", "other": "t-other",
}  # fmt: skip
"""By part of the time; every other part is a reason to wait."""
_WAIT_LOOKS = ("t-wait1", "t-wait2", "t-wait3")
_BESIDE = 3.0
"""Least factor between what is drawn and the border of a roofline."""
_SHOWN_FACTOR = 4.0
"""Times above this multiple of the best are drawn at the upper edge."""
_MAX_TITLES = 1500
"""Trials whose configuration a page tells under the pointer; it is half of the page."""
_STEPS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_LEAST_TICKS = 3


class Scale(NamedTuple):
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

    def list_decades(self) -> list[float]:
        """Return the powers of ten on it; of more than six only each second."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**at for at in range(first, last + 1, 1 + (last - first) // 6)]

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


class Tick(NamedTuple):
    """A line across a picture, with its label."""

    at: float
    text: str


class Frame(NamedTuple):
    """The size of a picture, the edges of what is drawn in it, and its ticks."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_labels: int
    """Where the baseline of the labels below stands."""
    y_labels: int
    """Where the labels at the left end."""
    said: str = ""
    """What the picture shows, in words."""
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()

    @property
    def middle(self) -> float:
        """Return the middle between left and right."""
        return (self.left + self.right) / 2


_ROOFLINE = Frame(340, 230, 44, 332, 10, 192, 206, 40)
_CONVERGENCE = Frame(460, 250, 58, 450, 10, 212, 234, 53)
_BOXES = Frame(230, 170, 58, 220, 10, 136, 151, 53)


class TimePart(NamedTuple):
    """A part of a kernel's time."""

    title: str
    share: float
    look: str
    """Its class in the style sheet."""


def list_time_parts(parts: Sequence[TimeShare]) -> list[TimePart]:
    """Return the parts of the time, each with its look; reasons to wait fade in their order."""
    waits = [part["part"] for part in parts if part["part"] not in _PART_LOOKS]
    return [
        TimePart(
            part["title"],
            part["share"],
            _PART_LOOKS.get(part["part"])
            or _WAIT_LOOKS[min(waits.index(part["part"]), len(_WAIT_LOOKS) - 1)],
        )
        for part in parts
    ]


class RooflinePoint(NamedTuple):
    """Where a kernel stands below the roofs of its GPU; every value is above zero."""

    intensity: float
    """Operations executed per byte of device memory."""
    gflops: float
    """1e9 operations per second, outside tensor cores."""
    peak_gflops: float
    peak: str
    """Which peak that is: ``FP32``."""
    bandwidth_gbps: float
    """Practical peak of the device memory, 1e9 bytes per second."""


class Roofline(NamedTuple):
    """The roofs of a GPU, and one kernel below them."""

    frame: Frame
    roof: str
    """Corners of the line."""
    peak: str
    peak_y: float
    x: float
    """Of the kernel; ``y`` too."""
    y: float
    roof_y: float
    """Of the roof above it."""
    bandwidth: str


def place_roofline(point: RooflinePoint) -> Roofline:
    """Return the picture of a kernel below the roofs of its GPU."""
    ridge = point.peak_gflops / point.bandwidth_gbps
    roof = min(point.peak_gflops, point.bandwidth_gbps * point.intensity)
    xs, ys = _choose_axes(point, ridge)
    start = max(xs.low, ys.low / point.bandwidth_gbps)
    corners = [
        (start, start * point.bandwidth_gbps), (ridge, point.peak_gflops),
        (xs.high, point.peak_gflops),
    ]  # fmt: skip
    said = (
        f"{format_number(point.gflops)} GFLOP/s at {format_number(point.intensity)} operations "
        f"per byte of device memory: {format_share(point.gflops / roof)} of the "
        f"{'memory' if point.intensity < ridge else point.peak} roof there"
    )
    return Roofline(
        _ROOFLINE._replace(
            said=said,
            x_ticks=tuple(Tick(xs.locate(one), _format_tick(one)) for one in xs.list_decades()),
            y_ticks=tuple(Tick(ys.locate(one), _format_tick(one)) for one in ys.list_decades()),
        ),
        roof=" ".join(f"{xs.locate(one)},{ys.locate(other)}" for one, other in corners),
        peak=f"{point.peak} {format_number(point.peak_gflops)}",
        peak_y=ys.locate(point.peak_gflops),
        x=xs.locate(point.intensity),
        y=ys.locate(point.gflops),
        roof_y=ys.locate(roof),
        bandwidth=f"memory {format_number(point.bandwidth_gbps)} GB/s",
    )


def _choose_axes(point: RooflinePoint, ridge: float) -> tuple[Scale, Scale]:
    low, high = min(point.intensity, ridge), max(point.intensity, ridge)
    xs = Scale(low / _BESIDE**2, high * _BESIDE**2, _ROOFLINE.left, _ROOFLINE.right, True)
    bottom = min(point.gflops, point.bandwidth_gbps * xs.low * _BESIDE)
    top = max(point.gflops, point.peak_gflops)
    return xs, Scale(bottom / _BESIDE, top * _BESIDE, _ROOFLINE.bottom, _ROOFLINE.top, True)


def _format_tick(value: float) -> str:
    """Return a number with three digits; thousands as k."""
    return f"{value / 1e3:.3g}k" if value >= 1e3 else f"{value:.3g}"


class Dot(NamedTuple):
    """A timed trial."""

    x: float
    y: float
    title: str
    """What is told under the pointer; empty where a page has too many trials."""


class ConvergenceChart(NamedTuple):
    """Every trial, and the best time so far."""

    frame: Frame
    unit: str
    """Of the axis below."""
    dots: tuple[Dot, ...]
    rejected: tuple[float, ...]
    """Where trials without a time stand."""
    best: str
    """Corners of the best so far."""
    default_y: float | None
    """Of the default's time; None without one."""


def place_convergence(result: TuningResult) -> Iterator[ConvergenceChart]:
    """Yield each trial and the best so far, over the trials and over the time on the device."""
    if not any(one.time_us for one in result.trials):
        return
    seconds, sums = 0.0, []
    for trial in result.trials:
        seconds += trial.trial_s
        sums.append(seconds)
    yield _place_trials(result, [float(at + 1) for at in range(len(sums))], "trials")
    if seconds > 0:
        yield _place_trials(result, sums, "seconds on the device")


def _place_trials(result: TuningResult, positions: Sequence[float], unit: str) -> ConvergenceChart:
    best_us = min(one.time_us for one in result.trials if one.time_us)
    frame = _CONVERGENCE
    xs = Scale(0.0, positions[-1], frame.left, frame.right)
    ys = _make_time_scale(result, best_us, frame)
    has_titles = len(result.trials) <= _MAX_TITLES
    dots, rejected = [], []
    for trial, position in zip(result.trials, positions, strict=True):
        if trial.status == "timed" and trial.time_us:
            title = _describe_trial(trial) if has_titles else ""
            dots.append(Dot(xs.locate(position), ys.locate(trial.time_us), title))
        elif trial.status != "same-code":
            rejected.append(xs.locate(position))
    return ConvergenceChart(
        frame._replace(
            said=f"best time so far over {unit}: {format_duration(best_us)} in the end",
            x_ticks=tuple(Tick(xs.locate(one), f"{one:g}") for one in xs.list_ticks()),
            y_ticks=list_time_ticks(ys),
        ),
        unit=unit,
        dots=tuple(dots),
        rejected=tuple(rejected),
        best=_trace_best(result.trials, positions, xs, ys),
        default_y=ys.locate(result.default_us) if result.default_us else None,
    )


def _make_time_scale(result: TuningResult, best_us: float, frame: Frame) -> Scale:
    times = [one.time_us for one in result.trials if one.time_us]
    high = min(max(*times, result.default_us or 0.0, 1.1 * best_us), _SHOWN_FACTOR * best_us)
    high = max(high, 1.02 * (result.default_us or 0.0))
    return Scale(0.97 * best_us, high, frame.bottom, frame.top, True)


def list_time_ticks(ys: Scale) -> tuple[Tick, ...]:
    """Return the ticks of an axis of times in microseconds."""
    return tuple(Tick(ys.locate(one), _format_time_tick(one)) for one in ys.list_ticks())


def _format_time_tick(us: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


def _describe_trial(trial: TuningTrial) -> str:
    values = " ".join(f"{name}={value}" for name, value in trial.configuration.items())
    return f"{trial.number}: {format_duration(trial.time_us or 0.0)}, {values}"


def _trace_best(
    trials: Sequence[TuningTrial], positions: Sequence[float], xs: Scale, ys: Scale
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


class ValueBox(NamedTuple):
    """The times at one value of a tunable: positions, and what the labels say."""

    left: float
    right: float
    width: str
    top: float
    height: str
    median: float
    middle: str
    best: float
    said: str
    value: int
    trial_count: int


class ValueChart(NamedTuple):
    """The times at each value of a tunable."""

    frame: Frame
    name: str
    boxes: tuple[ValueBox, ...]


def place_values(result: TuningResult) -> Iterator[ValueChart]:
    """Yield a picture for each tunable: at each value the times' quartiles, median and best."""
    timed = [one for one in result.trials if one.status == "timed" and one.time_us]
    if not timed:
        return
    names = [*result.importance, *timed[0].configuration]
    ys = _make_time_scale(result, min(one.time_us or math.inf for one in timed), _BOXES)
    for name in dict.fromkeys(names):
        groups: dict[int, list[float]] = {}
        for one in timed:
            groups.setdefault(one.configuration[name], []).append(one.time_us or 0.0)
        if len(groups) > 1:
            yield _place_groups(name, dict(sorted(groups.items())), ys)


def _place_groups(name: str, groups: dict[int, list[float]], ys: Scale) -> ValueChart:
    told = ", ".join(
        f"{value}: {format_duration(statistics.median(times))} of {len(times)}"
        for value, times in groups.items()
    )
    step = (_BOXES.right - _BOXES.left) / len(groups)
    boxes = tuple(
        _place_box(_BOXES.left + (at + 0.5) * step, min(0.6 * step, 26), value, times, ys)
        for at, (value, times) in enumerate(groups.items())
    )
    said = cut_text(f"median time by {name}: {told}")
    return ValueChart(_BOXES._replace(said=said, y_ticks=list_time_ticks(ys)), name, boxes)


def _place_box(
    middle: float, width: float, value: int, times: Sequence[float], ys: Scale
) -> ValueBox:
    """Return the box of one value: its quartiles and median, a dot for the best, and the count."""
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    low, median, high = (ys.locate(min(max(one, min(times)), max(times))) for one in quarters)
    left, right = round(middle - width / 2, 1), round(middle + width / 2, 1)
    return ValueBox(
        left=left,
        right=right,
        width=f"{right - left:.1f}",
        top=high,
        height=f"{max(low - high, 1.0):.1f}",
        median=median,
        middle=f"{middle:.1f}",
        best=ys.locate(min(times)),
        said=f"{len(times)} trials, median {format_duration(statistics.median(times))}",
        value=value,
        trial_count=len(times),
    )


class IntervalPicture(NamedTuple):
    """An interval on a common axis; all are positions."""

    low: float
    high: float
    point: float
    one: float
    """Of 1, which the axis holds."""


def place_intervals(confirmed: Sequence[ConfirmedConfiguration]) -> list[IntervalPicture]:
    """Return the interval of each gain, all on one axis that shows 1."""
    low = min([1.0, *(one.low for one in confirmed)])
    high = max([1.0, *(one.high for one in confirmed)])
    margin = 0.05 * max(high - low, 0.02)
    xs = Scale(low - margin, high + margin, 4, 176)
    return [
        IntervalPicture(xs.locate(one.low), xs.locate(one.high), xs.locate(one.gain), xs.locate(1))
        for one in confirmed
    ]
