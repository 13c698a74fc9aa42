"""Outcomes of several sessions → one SVG picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from kernelkb.model.outcome import AchievedSpeedup, SessionOutcome
from kernelkb.render.plot import AXIS_MARGIN, FONT, TEXT_COLOR, Panel, Series, draw_panel

_WIDTH, _RIGHT_MARGIN, _TOP_MARGIN, _PANEL_HEIGHT, _NAMES_HEIGHT = 1000, 200, 70, 210, 130
_PALE, _BLUE, _ORANGE, _RED = "#9aa5b1", "#2563a8", "#d97b16", "#b42318"
_NOTE = (
    "No mark: it never came to that, or the record does not say. "
    "A grey name: an account, nothing was measured here."
)
_MAX_NAMES = 40
"""Names below one another; of more sessions, every second or third is named."""


def render_trend_svg(sessions: Sequence[SessionOutcome]) -> str:
    """Return a picture of how sessions went, oldest on the left.

    The same sessions give the same bytes, and the picture loads nothing: no script, no font.

    Args:
        sessions: At least one.
    """
    panels = (
        _build_speedup_panel(sessions),
        _build_minutes_panel(sessions),
        _build_changes_panel(sessions),
        _build_cost_panel(sessions),
    )
    height = _TOP_MARGIN + _PANEL_HEIGHT * len(panels) + _NAMES_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="{FONT}">',
        "<title>Sessions over time</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _draw_text(24, 32, _describe_date_range(sessions), size=17, weight="bold"),
        _draw_text(24, 52, _NOTE, size=12),
    ]
    left = 0.0
    for number, panel in enumerate(panels):
        top = _TOP_MARGIN + _PANEL_HEIGHT * number
        chart, left = draw_panel(panel, number, top, (_WIDTH, _PANEL_HEIGHT, _RIGHT_MARGIN))
        parts += [chart, _draw_text(24, top + 18, panel.title, size=13, weight="bold")]
        parts += _draw_legend(panel, top)
    parts += _draw_names(sessions, left, _TOP_MARGIN + _PANEL_HEIGHT * len(panels) + 2)
    return "\n".join([*parts, "</svg>", ""])


def _describe_date_range(sessions: Sequence[SessionOutcome]) -> str:
    first, last = sessions[0].opened, sessions[-1].opened
    count = f"{len(sessions)} session{'s' if len(sessions) > 1 else ''}"
    return f"{count}, {first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _build_speedup_panel(sessions: Sequence[SessionOutcome]) -> Panel:
    sure = [bool(s.kind == "recorded" and s.final and s.final.checked) for s in sessions]
    points = [_speedup_mark(one.final) for one in sessions]
    pairs = list(zip(points, sure, strict=True))
    return Panel(
        "Final speedup over the baseline, with its 95 % interval",
        (
            Series("measured and checked", _BLUE, [p if known else None for p, known in pairs]),
            Series("told, or not checked", _PALE, [None if known else p for p, known in pairs]),
        ),
        dots=True,
        value_format="{:.3g}x",
    )


def _speedup_mark(reached: AchievedSpeedup | None) -> dict[str, Any] | None:
    if reached is None or reached.speedup <= 0:
        return None
    point: dict[str, Any] = {"value": reached.speedup}
    if reached.interval and reached.interval[0] > 0:
        point["ci"] = {"low": reached.interval[0], "high": reached.interval[1]}
    return point


def _build_minutes_panel(sessions: Sequence[SessionOutcome]) -> Panel:
    series = (
        Series("the whole session", _PALE, [_log_mark(s.minutes) for s in sessions]),
        Series(
            "to the bottleneck", _ORANGE, [_log_mark(s.minutes_to_bottleneck) for s in sessions]
        ),
        Series(
            "to the first right build", _BLUE, [_log_mark(s.minutes_to_build) for s in sessions]
        ),
    )
    return Panel("Minutes", series, dots=True)


def _log_mark(value: float | None) -> dict[str, Any] | None:
    """Return a mark for a logarithmic axis, which has no place for a zero."""
    return {"value": value} if value else None


def _build_changes_panel(sessions: Sequence[SessionOutcome]) -> Panel:
    series = (
        Series("all", _PALE, [_bar_mark(s.changes) for s in sessions]),
        Series("blind: no profile before", _ORANGE, [_bar_mark(s.blind_changes) for s in sessions]),
        Series("wrong: slower or incorrect", _RED, [_bar_mark(s.wrong_changes) for s in sessions]),
    )
    return Panel("Changes of the code", series, value_format="{:.0f}", integer_labels=True)


def _build_cost_panel(sessions: Sequence[SessionOutcome]) -> Panel:
    costs = Series("", _BLUE, [_bar_mark(s.cost_usd) for s in sessions])
    return Panel("Cost in USD", (costs,), value_format="{:.2f}")


def _bar_mark(value: float | None) -> dict[str, Any] | None:
    return None if value is None else {"value": value}


def _draw_legend(panel: Panel, top: int) -> list[str]:
    left = _WIDTH - _RIGHT_MARGIN + 16
    lines: list[str] = []
    for row, series in enumerate(one for one in panel.series if one.title):
        y = top + 50 + 20 * row
        lines.append(f'<circle cx="{left}" cy="{y - 4}" r="4" fill="{series.color}"/>')
        lines.append(_draw_text(left + 12, y, series.title, size=11))
    return lines


def _draw_names(sessions: Sequence[SessionOutcome], left: float, top: int) -> list[str]:
    """Return the name of each session below its marks; an account in grey."""
    width = _WIDTH - _RIGHT_MARGIN - left
    lines: list[str] = []
    every = math.ceil(len(sessions) / _MAX_NAMES)
    for number, one in list(enumerate(sessions))[::every]:
        share = ((number + 0.5) / len(sessions) + AXIS_MARGIN) / (1 + 2 * AXIS_MARGIN)
        x = f"{left + share * width:.1f}"
        color = TEXT_COLOR if one.kind == "recorded" else "#6b7785"
        turned = f'transform="rotate(35 {x} {top + 8})" font-size="11" fill="{color}"'
        lines.append(f'<text x="{x}" y="{top + 8}" {turned}>{escape(_shorten(one.session))}</text>')
    return lines


def _shorten(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:29]}…"


def _draw_text(x: int, y: int, words: str, *, size: int, weight: str = "normal") -> str:
    attributes = f'x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{TEXT_COLOR}"'
    return f"<text {attributes}>{escape(words)}</text>"
