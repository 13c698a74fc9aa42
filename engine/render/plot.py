"""Rows of values → a chart in SVG. The only module that imports pygal."""

from __future__ import annotations

import math
import re
import sys
from typing import Any, NamedTuple

TEXT_COLOR = "#1f2933"
FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
AXIS_MARGIN = 0.02
"""What pygal leaves free at either end of an axis, as a share of its length."""

_MAX_PRINTED_VALUES = 20
"""Numbers beside more marks than these would run into one another."""


class Series(NamedTuple):
    """A row of values, None where nothing is known, and how it is drawn."""

    title: str
    color: str
    values: list[dict[str, Any] | None]


class Panel(NamedTuple):
    """One chart of the picture."""

    title: str
    series: tuple[Series, ...]
    dots: bool = False
    """Dots on a logarithmic axis instead of bars from zero."""
    value_format: str = ""
    """Format of the numbers beside the marks; none when empty."""
    integer_labels: bool = False
    """Counts: no label between two of them."""


def draw_panel(
    panel: Panel, number: int, top: int, size: tuple[int, int, int]
) -> tuple[str, float]:
    """Return a chart as an SVG element to be set into a picture, and where its axis begins.

    Args:
        panel: What it shows.
        number: Of the chart in the picture.
        top: Where it stands in the picture.
        size: Its width and height, and how much of the width stays free at the right.
    """
    root = _render_chart(panel, number, size)
    from pygal.etree import etree  # which is set right by now

    root.set("y", str(top))
    return str(etree.tostring(root, encoding="unicode")), _find_axis_left(root)


def _render_chart(panel: Panel, number: int, size: tuple[int, int, int]) -> Any:
    """Return one chart as an element, without what pygal adds for a browser."""
    width, height, right = size
    pygal = _import_pygal()
    chart = (pygal.Line if panel.dots else pygal.Bar)(
        style=_build_style(panel),
        width=width,
        height=height,
        margin_top=34,
        margin_bottom=12,
        margin_right=right,
        explicit_size=True,
        js=(),
        show_legend=False,
        show_x_labels=False,
        stroke=False,
        dots_size=4,
        print_values=bool(panel.value_format)
        and len(panel.series[0].values) <= _MAX_PRINTED_VALUES,
        print_values_position="top",
        value_formatter=_format_tick,
    )
    # An identifier of its own, so that one chart's colours do not reach the next; not a random one.
    chart.uuid = f"trend-{number}"
    _set_axis(chart, panel)
    for series in panel.series:
        values = _center_points(series.values) if panel.dots else series.values
        chart.add(series.title, values, formatter=panel.value_format.format)
    return _strip_scripts(chart.render_tree())


def _import_pygal() -> Any:
    """Import pygal and undo what it does to the process."""
    import pygal
    from pygal.etree import etree

    # Its finder for maps lacks find_spec, so every later import that fails would warn.
    sys.meta_path[:] = [one for one in sys.meta_path if type(one) is not pygal.PluginImportFixer]
    # It takes lxml where that is installed, which orders and escapes in another way.
    etree.to_etree()
    return pygal


def _build_style(panel: Panel) -> Any:
    from pygal.style import Style

    colors = tuple(series.color for series in panel.series)
    return Style(
        background="white",
        plot_background="white",
        foreground=TEXT_COLOR,
        foreground_strong=TEXT_COLOR,
        foreground_subtle=TEXT_COLOR,
        font_family=FONT,
        label_font_size=11,
        major_label_font_size=11,
        value_font_size=10,
        opacity="1",
        stroke_opacity="1",
        transition="0s",
        guide_stroke_color="#d5dae0",
        major_guide_stroke_color="#7b8794",
        guide_stroke_dasharray="1,0",
        major_guide_stroke_dasharray="1,0",
        colors=colors,
        ci_colors=colors,
    )


def _center_points(values: list[dict[str, Any] | None]) -> list[dict[str, Any] | None]:
    """Put each value in the middle of its share of the axis, where the bars are.

    pygal lays the points of a line from end to end.
    """
    return [None, *(point for value in values for point in (value, None))]


def _set_axis(chart: Any, panel: Panel) -> None:
    """Choose an axis that shows every value, and every interval whole."""
    marks = [mark for series in panel.series for mark in series.values if mark]
    known = [mark["value"] for mark in marks]
    known += [end for mark in marks for end in mark.get("ci", {}).values()]
    if panel.dots:
        low = math.floor(math.log10(min(known, default=0.1)))
        high = max(math.ceil(math.log10(max(known, default=10))), low + 1)
        chart.logarithmic = True
        chart.range = (10.0**low, 10.0**high)
        every = math.ceil((high - low) / 6)
        chart.y_labels = [10.0**power for power in range(low, high + 1, every)]
        chart.y_labels_major = [1.0]
    else:
        top = max(known, default=1.0)
        step = max(_label_step(top), 1.0 if panel.integer_labels else 0.0)
        count = max(math.ceil(top / step), 1)
        chart.range = (0, step * count)
        chart.y_labels = [step * number for number in range(count + 1)]
        chart.y_labels_major = [0.0]


def _label_step(top: float) -> float:
    """Return a round distance of labels that gives two to five of them."""
    if top <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(top))
    return next(power * part for part in (0.2, 0.5, 1, 2, 5) if top / (power * part) <= 5)


def _format_tick(value: float) -> str:
    # As wide in every panel: pygal makes room for the longest, and the panels stand in line.
    return f"{value:>8.4g}"


def _strip_scripts(root: Any) -> Any:
    """Drop scripts, and comments, which hold today's date."""
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.endswith("script"):
                parent.remove(child)
    return root


def _find_axis_left(root: Any) -> float:
    """Return where the axis begins, which pygal decides by the width of its labels."""
    moves = (node.get("transform", "") for node in root.iter())
    found = next(filter(None, (re.match(r"translate\((\d+)", move) for move in moves)))
    return float(found[1])
