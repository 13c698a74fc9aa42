"""Draws where a kernel's time goes, as a bar, and where it stands below the roofs, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.render.html.report_text import escape_text, format_share

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import TimeShare
    from kernelkb.render.html.report_data import RooflinePoint

_PART_CLASSES = {
    "memory": "t-memory", "l1": "t-l1", "compute": "t-compute", "launch": "t-launch",
    "fill": "t-fill", "unexplained": "t-other", "other": "t-other",
}  # fmt: skip
"""By part of the time; every other part is a reason to wait."""
_WAIT_CLASSES = ("t-wait1", "t-wait2", "t-wait3")
_WIDTH, _HEIGHT = 340, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 10, 38
"""Margins of the picture, which hold its labels."""
_BESIDE = 3.0
"""Least factor between what is drawn and the border of the picture."""


def format_time_bar(parts: Sequence[TimeShare]) -> Iterator[str]:
    """Yield a bar of the parts of the time, and a list of them that says the same in words."""
    classes = _assign_classes(parts)
    yield '<div class="bar" aria-hidden="true">'
    for part, name in zip(parts, classes, strict=True):
        if part["share"] > 0:
            yield f'<span class="{name}" style="flex-grow:{part["share"]:.4f}"></span>'
    yield '</div><ul class="legend">'
    for part, name in zip(parts, classes, strict=True):
        share, title = format_share(part["share"]), escape_text(part["title"], 120)
        yield f'<li><span class="dot {name}"></span>{title} <b>{share}</b></li>'
    yield "</ul>"


def _assign_classes(parts: Sequence[TimeShare]) -> list[str]:
    waits = [part["part"] for part in parts if part["part"] not in _PART_CLASSES]
    return [
        _PART_CLASSES.get(part["part"])
        or _WAIT_CLASSES[min(waits.index(part["part"]), len(_WAIT_CLASSES) - 1)]
        for part in parts
    ]


class _Axis(NamedTuple):
    """A logarithmic axis."""

    low: float
    high: float
    """Both as values."""
    start: float
    end: float
    """Both as positions."""

    def locate(self, value: float) -> float:
        """Return the position of a value, in the picture."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def list_decades(self) -> list[float]:
        """Return the powers of ten on it; of more than six only each second."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**at for at in range(first, last + 1, 1 + (last - first) // 6)]


def format_roofline(point: RooflinePoint) -> Iterator[str]:
    """Yield the roofline of a GPU with one kernel as a picture, and the same in words."""
    ridge = point.peak_gflops / point.bandwidth_gbps
    roof = min(point.peak_gflops, point.bandwidth_gbps * point.intensity)
    xs, ys = _choose_axes(point, ridge)
    x, y = xs.locate(point.intensity), ys.locate(point.gflops)
    said = (
        f"{_format_number(point.gflops)} GFLOP/s at {_format_number(point.intensity)} operations "
        f"per byte of device memory: {format_share(point.gflops / roof)} of the "
        f"{'memory' if point.intensity < ridge else point.peak} roof there"
    )
    yield f'<svg class="roofline" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">'
    yield from _format_axes(xs, ys)
    start = max(xs.low, ys.low / point.bandwidth_gbps)
    corners = [
        (start, start * point.bandwidth_gbps), (ridge, point.peak_gflops),
        (xs.high, point.peak_gflops),
    ]  # fmt: skip
    path = " ".join(f"{xs.locate(one)},{ys.locate(other)}" for one, other in corners)
    yield f'<polyline class="roof" points="{path}"/>'
    peak_y = ys.locate(point.peak_gflops)
    yield f'<text x="{_WIDTH - _RIGHT - 4}" y="{peak_y - 5}" text-anchor="end">'
    yield f"{escape_text(point.peak, 20)} {_format_number(point.peak_gflops)}</text>"
    yield f'<line class="gap" x1="{x}" y1="{ys.locate(roof)}" x2="{x}" y2="{y}"/>'
    yield f'<circle class="here" cx="{x}" cy="{y}" r="5"/></svg>'
    bandwidth = f"memory {_format_number(point.bandwidth_gbps)} GB/s"
    yield f'<p class="muted">{said} ({bandwidth}; operations outside tensor cores).</p>'


def _choose_axes(point: RooflinePoint, ridge: float) -> tuple[_Axis, _Axis]:
    low, high = min(point.intensity, ridge), max(point.intensity, ridge)
    xs = _Axis(low / _BESIDE**2, high * _BESIDE**2, _LEFT, _WIDTH - _RIGHT)
    bottom = min(point.gflops, point.bandwidth_gbps * xs.low * _BESIDE)
    top = max(point.gflops, point.peak_gflops)
    return xs, _Axis(bottom / _BESIDE, top * _BESIDE, _HEIGHT - _BOTTOM, _TOP)


def _format_axes(xs: _Axis, ys: _Axis) -> Iterator[str]:
    for value in xs.list_decades():
        at = xs.locate(value)
        yield f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{_HEIGHT - _BOTTOM}"/>'
        yield f'<text x="{at}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">'
        yield f"{_format_tick(value)}</text>"
    for value in ys.list_decades():
        at = ys.locate(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{at}" x2="{_WIDTH - _RIGHT}" y2="{at}"/>'
        yield f'<text x="{_LEFT - 4}" y="{at + 4}" text-anchor="end">{_format_tick(value)}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">operations per byte</text>'
    yield f'<text x="{_LEFT + 4}" y="{_TOP + 11}">GFLOP/s</text>'


def _format_tick(value: float) -> str:
    """Return a number with three digits; thousands as k."""
    return f"{value / 1e3:.3g}k" if value >= 1e3 else f"{value:.3g}"


def _format_number(value: float) -> str:
    """Return a number with three digits, and commas between thousands."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1e3 else f"{value:.3g}"
