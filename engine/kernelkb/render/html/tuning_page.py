"""Formats a search as one HTML page: convergence, importance, values, rejections, the winner.

The page needs no network and no script, and forbids both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult
from kernelkb.render.html.html_page import format_page_start
from kernelkb.render.html.report_style import STYLE
from kernelkb.render.html.report_text import escape_text, format_share
from kernelkb.render.html.tuning_charts import (
    format_convergence_charts,
    format_interval,
    format_value_charts,
)
from kernelkb.render.text.measurements import describe_bench
from kernelkb.render.text.tuning import (
    describe_concentration,
    describe_next,
    describe_trials,
    format_configuration,
    format_convergence,
    summarize_result,
)
from kernelkb.render.text.tuning_why import format_gain_explanation
from kernelkb.units import format_duration

_MAX_CHARS = 400
_WHOLE, _KEEP = ("Time", "Trials", "Share", "Excludes"), ' class="keep"'
"""Columns whose cells are never broken into lines."""
_STYLE = """
main>h2{margin-top:1.5em}
figure{margin:0;min-width:0}
figcaption{color:var(--muted);font-size:.9em;text-align:center}
.charts{display:grid;gap:12px 24px;
grid-template-columns:repeat(auto-fit,minmax(min(340px,100%),1fr))}
.values{display:grid;gap:12px 16px;
grid-template-columns:repeat(auto-fill,minmax(min(215px,100%),1fr))}
.chart{display:block;width:100%;height:auto}
.chart text{fill:var(--muted);font-size:11px}
.chart .count{font-size:9px}
.chart .grid,.interval .grid{stroke:var(--line);stroke-width:1}
.chart .best,.interval .best{fill:none;stroke:var(--memory);stroke-width:2}
.chart .default{stroke:var(--muted);stroke-dasharray:4 3}
.chart .trial,.interval .trial{fill:var(--wait1)}
.chart .rejected{stroke:var(--launch);stroke-width:1}
.chart .quartiles{fill:var(--other);opacity:.55}
.chart .median{stroke:var(--fg);stroke-width:2}
.interval{width:180px;max-width:100%;height:20px}
.share{display:grid;grid-template-columns:minmax(7em,14em) minmax(0,1fr) 4em;gap:3px 10px;
align-items:center}
.share b{font-variant-numeric:tabular-nums;text-align:right;font-weight:normal}
.share i{height:12px;border-radius:3px;background:var(--memory)}
"""


def format_tuning_page(result: TuningResult) -> str:
    """Return the page of a search.

    Args:
        result: Of ``kernelkb.tune.tune.tune``.
    """
    name = escape_text(f"{result.kernel}/{result.variant}", 160)
    where = escape_text(f"{result.workload}, {result.device}", 160)
    parts = [
        format_page_start(f"{name}: tuning", STYLE + _STYLE),
        f'<header><h1>{name}</h1><p class="muted">{where}</p>',
        f"<p>{escape_text(summarize_result(result), _MAX_CHARS)}</p></header><main>",
        *_format_confirmed(result),
        *_format_why(result),
        *_format_convergence(result),
        *_format_importance(result),
        *_format_values(result),
        *_format_rejections(result),
        *_format_infeasible(result),
        f'</main><footer class="muted">{escape_text(describe_trials(result), _MAX_CHARS)}</footer>',
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _format_confirmed(result: TuningResult) -> Iterator[str]:
    yield "<h2>The fastest, measured again in turns</h2>"
    if not result.confirmed:
        yield "<p>No configuration could be timed.</p>"
        return
    base = "the default" if result.default_us else "the slowest of these"
    edges = _choose_edges(result.confirmed)
    rows = [
        (
            f"<code>{escape_text(format_configuration(one.configuration), _MAX_CHARS)}</code>",
            format_duration(one.time_us),
            f"{one.gain:.3g}x [{one.low:.3g}, {one.high:.3g}]",
            format_interval(one.low, one.high, one.gain, edges),
            _name_place(result, one, at),
        )
        for at, one in enumerate(result.confirmed)
    ]
    yield from _format_table(
        ("Configuration", "Time", f"Gain over {base}", "95 % interval", ""), rows
    )
    if result.bench is not None:
        yield f"<p>Judged: {escape_text(describe_bench(result.bench), _MAX_CHARS)}.</p>"
    if result.unrecorded:
        yield f"<p>Not recorded: {escape_text(result.unrecorded, _MAX_CHARS)}.</p>"
    yield f"<p><code>{escape_text(describe_next(result), 800)}</code></p>"


def _choose_edges(confirmed: Sequence[ConfirmedConfiguration]) -> tuple[float, float]:
    low, high = min(1.0, *(x.low for x in confirmed)), max(1.0, *(x.high for x in confirmed))
    margin = 0.05 * max(high - low, 0.02)
    return low - margin, high + margin


def _name_place(result: TuningResult, one: ConfirmedConfiguration, at: int) -> str:
    if one.configuration == result.default:
        return "default"
    return "tie with the fastest" if one.is_tie else "fastest" if at == 0 else ""


def _format_why(result: TuningResult) -> Iterator[str]:
    if result.why is None:
        return
    first, *lines = format_gain_explanation(result.why)
    yield f"<h2>{escape_text(first.rstrip(':').capitalize())}</h2><ul>"
    yield from (f"<li>{escape_text(line.strip())}</li>" for line in lines)
    yield "</ul>"


def _format_convergence(result: TuningResult) -> Iterator[str]:
    yield "<h2>Convergence</h2>"
    for line in format_convergence(result)[1:]:
        yield f"<p>{escape_text(line.strip())}.</p>"
    yield '<div class="charts">'
    yield from format_convergence_charts(result)
    yield '</div><p class="muted">Line: the best so far. Dots: trials, those far above at the edge.'
    yield "Ticks below: rejected ones. Dashed: the default, measured in turns.</p>"


def _format_importance(result: TuningResult) -> Iterator[str]:
    if not result.importance:
        return
    yield "<h2>What decides</h2>"
    yield '<p class="muted">Share of each tunable alone in the spread of the times that a model of '
    yield 'all trials predicts over the space.</p><div class="share">'
    for name, share in result.importance.items():
        width = f"{100 * min(max(share, 0.0), 1.0):.1f}%"
        yield f"<code>{escape_text(name, 80)}</code>"
        yield f'<i style="width:{width}"></i><b>{format_share(share)}</b>'
    yield "</div>"


def _format_values(result: TuningResult) -> Iterator[str]:
    charts = list(format_value_charts(result))
    if not charts:
        return
    yield "<h2>Times by value</h2>"
    yield '<p class="muted">Box: the middle half of the trials, with the median; dot: the best; '
    yield "below: value and number of trials. A search tries good values more often, so that a "
    yield 'median says what was tried, too.</p><div class="values">'
    yield from charts
    yield "</div>"


def _format_rejections(result: TuningResult) -> Iterator[str]:
    if not result.rejections:
        return
    yield "<h2>Rejected trials</h2>"
    rows = [
        (
            escape_text(one.status, 40),
            str(one.count),
            format_share(one.share),
            "<br>".join(
                escape_text(describe_concentration(value, one)) for value in one.concentrations
            ),
            escape_text(one.example or "", 200),
        )
        for one in result.rejections
    ]
    yield from _format_table(("Reason", "Trials", "Share", "Concentrated at", "Example"), rows)


def _format_infeasible(result: TuningResult) -> Iterator[str]:
    count = result.combination_count - result.feasible_count
    if not result.infeasible or not count:
        return
    yield "<h2>Infeasible combinations</h2>"
    yield f'<p class="muted">{count:,} of {result.combination_count:,} never reached the compiler; '
    yield "a combination may break several rules.</p>"
    ordered = sorted(result.infeasible, key=lambda one: -one.excluded_count)
    rows = [
        (
            f"<code>{escape_text(one.rule, _MAX_CHARS)}</code>",
            f"{one.excluded_count:,}",
            escape_text(one.because, _MAX_CHARS),
        )
        for one in ordered
    ]
    yield from _format_table(("Rule", "Excludes", "Because"), rows)


def _format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table; a narrow page shows the name of the column before each cell."""
    heads = "".join(f"<th>{escape_text(name, 80)}</th>" for name in columns)
    yield f'<table class="kernels"><thead><tr>{heads}</tr></thead><tbody>'
    for row in rows:
        cells = "".join(
            f'<td{_KEEP if name in _WHOLE else ""} data-name="{escape_text(name, 80)}">{cell}</td>'
            for name, cell in zip(columns, row, strict=True)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table>"
