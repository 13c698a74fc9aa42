"""Computes where boxes and lines lie in pictures of trees and measurements."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kernelkb.graph.picture import Arrow, Box, Picture
from kernelkb.render.html.charts import Frame, Scale, Tick, list_time_ticks

_WIDTHS = (330, 330, 250)
_GAP_X, _GAP_Y, _MARGIN = 116, 16, 12
_LINE, _PAD = 16, 10
_CHAR = 6.9
"""Width of a letter of 12 px, about."""
_MAX_LINES = 5


class DiagramBox(NamedTuple):
    """A box with its lines of text."""

    id: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    taken: bool


class DiagramArrow(NamedTuple):
    """A line from one box to another."""

    path: str
    """Of SVG."""
    label: str
    x: float
    """Of the label."""
    y: float
    taken: bool
    anchor: str = "start"
    """Whether the label begins or ends there."""


class Diagram(NamedTuple):
    """Boxes in columns, with the lines between them."""

    width: float
    height: float
    boxes: tuple[DiagramBox, ...]
    arrows: tuple[DiagramArrow, ...]
    said: str
    """What it shows, in words."""


def place_picture(picture: Picture) -> Diagram:
    """Return a tree or a cause as a picture: questions below each other, their ends beside them."""
    columns = _choose_columns(picture["nodes"])
    boxes = _place_boxes(picture, columns)
    known = [one for one in picture["edges"] if {one["source"], one["target"]} <= boxes.keys()]
    leaving = Counter(one["source"] for one in known)
    gone: Counter[str] = Counter()
    arrows: list[DiagramArrow] = []
    for arrow in known:
        gone[arrow["source"]] += 1
        share = gone[arrow["source"]] / (leaving[arrow["source"]] + 1)
        arrows.append(_draw_arrow(arrow, boxes, columns, share))
    taken = [box.lines[0] for box in boxes.values() if box.taken]
    path = f"; the path taken: {' – '.join(taken)}" if taken else ""
    return Diagram(
        width=_MARGIN + max((box.x + box.width for box in boxes.values()), default=0.0),
        height=_MARGIN + max((box.y + box.height for box in boxes.values()), default=0.0),
        boxes=tuple(boxes.values()),
        arrows=tuple(arrows),
        said=f"{picture['title']}: {len(boxes)} boxes{path}",
    )


def _choose_columns(nodes: Sequence[Box]) -> dict[str, int]:
    """Return the column of each box; what an end of a tree leads to stands in its box, not here."""
    tree, cause = {"question": 0, "leaf": 1}, {"metric": 0, "bottleneck": 1}
    columns = tree if nodes[0]["kind"] in tree else {**cause, "look-alike": 2, "fix": 2}
    return {box["id"]: columns[box["kind"]] for box in nodes if box["kind"] in columns}


def _place_boxes(picture: Picture, columns: Mapping[str, int]) -> dict[str, DiagramBox]:
    """Return each box, as high as what leads to it, below those before it in its column."""
    parents: dict[str, list[str]] = {}
    labels = {box["id"]: box["label"] for box in picture["nodes"]}
    for arrow in picture["edges"]:
        parents.setdefault(arrow["target"], []).append(arrow["source"])
        if arrow["target"] not in columns:
            told = labels[arrow["target"]].replace("-", " ").replace("_", " ")
            labels[arrow["source"]] += f"\n→ {told}"
    free = dict.fromkeys(columns.values(), float(_MARGIN))
    found: dict[str, DiagramBox] = {}
    row = float(_MARGIN)
    leaving = Counter(one["source"] for one in picture["edges"])
    for box in _order_by_walk(picture, columns):
        column = columns[box["id"]]
        lines = _wrap(labels[box["id"]], _WIDTHS[column])
        height = 2 * _PAD + _LINE * len(lines)
        if box["kind"] == "question":
            height = max(height, _LINE * (leaving[box["id"]] + 1))
        before = [found[one].y for one in parents.get(box["id"], ()) if one in found]
        beside = [one for one in parents.get(box["id"], ()) if columns[one] < column]
        top = max(free[column], min(before)) if before and beside else free[column]
        if column == 0:
            top = max(top, row)
        x = _MARGIN + sum(_WIDTHS[:column]) + _GAP_X * column
        found[box["id"]] = DiagramBox(
            box["id"], box["kind"], x, top, _WIDTHS[column], height, lines, box["taken"]
        )
        free[column] = top + height + _GAP_Y
        if column == 1:
            row = max(row, free[column] - height / 2)
    return found


def _order_by_walk(picture: Picture, columns: Mapping[str, int]) -> list[Box]:
    """Return each question with its ends behind it, in the order of the tree."""
    ends = (
        (arrow["source"], arrow["target"])
        if columns.get(arrow["target"], -1) > columns[arrow["source"]]
        else (arrow["source"],)
        for arrow in picture["edges"]
        if arrow["source"] in columns
    )
    known = {box["id"]: box for box in picture["nodes"]}
    order = dict.fromkeys([*(name for pair in ends for name in pair), *columns])
    return [known[name] for name in sorted(order, key=lambda name: columns[name] > 1)]


@lru_cache(maxsize=1024)
def _wrap(text: str, width: float) -> tuple[str, ...]:
    letters = int((width - 2 * _PAD) / _CHAR)
    lines = [line for part in text.split("\n") for line in textwrap.wrap(part, letters)]
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 1], f"{lines[_MAX_LINES - 1][: letters - 2]} …"]
    return tuple(lines) or (" ",)


def _draw_arrow(
    arrow: Arrow, boxes: Mapping[str, DiagramBox], columns: Mapping[str, int], share: float
) -> DiagramArrow:
    """Return an arrow; ``share`` of the way down the side of its box it begins."""
    start, goal = boxes[arrow["source"]], boxes[arrow["target"]]
    if columns[start.id] < columns[goal.id]:
        x, y = start.x + start.width, round(start.y + start.height * share, 1)
        end_x, end_y = goal.x, goal.y + goal.height / 2
        bend = (end_x - x) / 2
        path = f"M{x},{y}C{x + bend},{y} {end_x - bend},{end_y} {end_x},{end_y}"
        return DiagramArrow(path, arrow["label"], end_x - 12, end_y - 5, arrow["taken"], "end")
    if goal.y > start.y and not _is_hidden(start, goal, boxes.values()):
        x, y, end_y = start.x + 26.0, start.y + start.height, goal.y
        path, place = f"M{x},{y}L{x},{end_y}", (x + 6, y + min(13.0, (end_y - y) / 2 + 5))
    else:
        side = start.x + start.width
        x, y, end_y = side, round(start.y + start.height * share, 1), goal.y + 8
        out = side + 24 + 10 * share
        path = f"M{x},{y}C{out},{y} {out},{end_y} {side},{end_y}"
        place = x + 6, y - 4
    return DiagramArrow(
        path, arrow["label"], round(place[0], 1), round(place[1], 1), arrow["taken"]
    )


def _is_hidden(start: DiagramBox, goal: DiagramBox, boxes: Iterable[DiagramBox]) -> bool:
    """Whether another box stands between two of one column."""
    return any(start.y < one.y < goal.y and one.x == start.x for one in boxes)


class TimePoint(NamedTuple):
    """One measurement over time; in a picture its times are heights."""

    us: float
    low_us: float | None
    """By the interval of its speedup; None without one."""
    high_us: float | None
    look: str
    """``plain``, ``promoted``, ``slower`` or ``wrong``."""
    title: str
    x: float = 0.0


class PointChart(NamedTuple):
    """Points in a frame."""

    frame: Frame
    marks: tuple[Any, ...]
    """Of times ``TimePoint``, of predictions x, y, class and title."""
    diagonal: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Where predicted and measured are equal."""


_TIMES = Frame(720, 260, 62, 708, 12, 222, 242, 57)
_SQUARE = Frame(360, 300, 48, 350, 12, 258, 276, 43)


def place_times(points: Sequence[TimePoint], said: str) -> PointChart | None:
    """Return the times of a kernel, the oldest first; None without any."""
    if not points:
        return None
    times = [one for point in points for one in (point.us, point.low_us, point.high_us) if one]
    xs = Scale(0.0, float(max(len(points) - 1, 1)), _TIMES.left + 14, _TIMES.right - 14)
    ys = Scale(0.93 * min(times), 1.07 * max(times), _TIMES.bottom, _TIMES.top, True)
    marks = tuple(
        point._replace(
            x=xs.locate(float(at)),
            us=ys.locate(point.us),
            low_us=ys.locate(point.low_us) if point.low_us else None,
            high_us=ys.locate(point.high_us) if point.high_us else None,
        )
        for at, point in enumerate(points)
    )
    return PointChart(_TIMES._replace(said=said, y_ticks=list_time_ticks(ys)), marks)


class PredictionPoint(NamedTuple):
    """What was told of a change, and what it gave, as speedups."""

    told: tuple[float, float, float]
    """Low, point, high."""
    measured: float
    title: str

    @property
    def inside(self) -> bool:
        """Whether the measured gain lies in the predicted interval."""
        return self.told[0] <= self.measured <= self.told[2]


def place_predictions(points: Sequence[PredictionPoint], said: str) -> PointChart | None:
    """Return predictions against outcomes, both on logarithmic axes; None without any."""
    values = [v for one in points for v in (one.told[1], one.measured) if 0 < v < math.inf]
    if not values:
        return None
    low, high = min(0.8, *values) * 0.95, max(2.0, *values) * 1.05
    xs = Scale(low, high, _SQUARE.left, _SQUARE.right, True)
    ys = Scale(low, high, _SQUARE.bottom, _SQUARE.top, True)
    looks = {True: "inside", False: "outside"}
    marks = tuple(
        (xs.locate(one.told[1]), ys.locate(one.measured), looks[one.inside], one.title)
        for one in points
        if one.told[1] > 0 and one.measured > 0
    )
    ticks = [one for one in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0) if low <= one <= high]
    frame = _SQUARE._replace(
        said=said,
        x_ticks=tuple(Tick(xs.locate(one), f"{one:g}x") for one in ticks),
        y_ticks=tuple(Tick(ys.locate(one), f"{one:g}x") for one in ticks),
    )
    line = (xs.locate(low), ys.locate(low), xs.locate(high), ys.locate(high))
    return PointChart(frame, marks, line)
