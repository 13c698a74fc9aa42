"""Formats a search as one HTML page: convergence, importance, values, rejections, the winner.

The page needs no network and no script, and forbids both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelkb.render.html.charts import place_convergence, place_intervals, place_values
from kernelkb.render.html.pages import fill_template
from kernelkb.render.text.measurements import describe_bench
from kernelkb.render.text.tuning import (
    describe_concentration,
    describe_next,
    describe_trials,
    format_configuration,
    format_convergence,
    format_gain_explanation,
    summarize_result,
)

if TYPE_CHECKING:
    from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult


def format_tuning_page(result: TuningResult) -> str:
    """Return the page of a search.

    Args:
        result: Of ``kernelkb.tune.tune.tune``.
    """
    confirmed = [
        (one, format_configuration(one.configuration), _name_place(result, one, at))
        for at, one in enumerate(result.confirmed)
    ]
    return fill_template(
        "tuning.html",
        result=result,
        summary=summarize_result(result),
        confirmed=confirmed,
        intervals=place_intervals(result.confirmed),
        bench=describe_bench(result.bench) if result.bench is not None else "",
        next_step=describe_next(result),
        why=format_gain_explanation(result.why) if result.why is not None else [],
        convergence=format_convergence(result)[1:],
        convergence_charts=list(place_convergence(result)),
        value_charts=list(place_values(result)),
        infeasible_count=result.combination_count - result.feasible_count,
        trials=describe_trials(result),
        describe_concentration=describe_concentration,
    )


def _name_place(result: TuningResult, one: ConfirmedConfiguration, at: int) -> str:
    if one.configuration == result.default:
        return "default"
    return "tie with the fastest" if one.is_tie else "fastest" if at == 0 else ""
