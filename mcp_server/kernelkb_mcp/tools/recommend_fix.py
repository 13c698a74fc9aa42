"""recommend_fix: from metrics or a log to the next fix, or the next measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kernelkb.profiles.report import is_report_text
from kernelkb_mcp.calls.arguments import require_path
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.calls.long_calls import run_to_the_end
from kernelkb_mcp.calls.tool_adapter import (
    get_server_config,
    result_from_fields,
    run_in_thread,
    run_inline,
)
from kernelkb_mcp.views.recommendation import (
    build_recommend_fields,
    build_what_if_fields,
    diagnose_log_text,
)
from kernelkb_mcp.views.results import RecommendResult

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import Recommendation
    from kernelkb_mcp.server_config import ServerConfig

TITLE = "Recommend the next fix"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

Number = Annotated[float, Field(strict=True)] | SkipJsonSchema[str] | None
"""Text such as ``40%`` is taken, too; the schema has one type, since clients drop or refuse two."""
Speedup = Annotated[Number, Field(description="Reference time / ours.")]
Bandwidth = Annotated[Number, Field(description="Of peak, 0 to 1.")]
Occupancy = Annotated[Number, Field(description="0 to 1.")]
Microseconds = Annotated[Number, Field(description="In microseconds.")]
Gpu = Annotated[str | None, Field(description="Driver's name.", max_length=100)]
Target = Annotated[Literal["cuda", "cpu"], Field(description="Default cuda.")]
Kernel = Annotated[
    str,
    Field(max_length=500, description="Name; of profile, regex."),
]
Report = Annotated[str | None, Field(description="Report: path, text.")]
Run = Annotated[
    str | None,
    Field(max_length=32, description="Of a measurement."),
]
Metrics = Annotated[
    dict[str, float | SkipJsonSchema[str]] | None,
    Field(description="By id, ncu name."),
]
WhatIf = Annotated[
    dict[str, str | SkipJsonSchema[int]] | None,
    Field(description="Launch: registers, vector=4:16"),
]
Log = Annotated[
    str | None,
    Field(description="Failure: text, path."),
]

Everything = Annotated[bool | SkipJsonSchema[None], Field(description="All.")]

_MAX_REPORT_CHARS = 400_000
"""Of a report that is given as text."""
_MAX_SHOWN_CHARS = 300
"""Of an argument, where a call is named."""
_HEADLINES = ("speedup", "bandwidth", "occupancy", "kernel-us")
"""Flags of ``kb recommend`` for the first arguments."""


async def recommend_fix(
    ctx: Context,
    speedup: Speedup = None,
    bandwidth: Bandwidth = None,
    occupancy: Occupancy = None,
    kernel_us: Microseconds = None,
    gpu: Gpu = None,
    target: Target = "cuda",
    kernel: Kernel = "",
    profile: Report = None,
    run: Run = None,
    metrics: Metrics = None,
    what_if: WhatIf = None,
    log: Log = None,
    everything: Everything = None,
) -> Annotated[CallToolResult, RecommendResult]:
    """Decide what limits a kernel, and the one change to make or measure.

    Give run, profile or numbers as measured; absent ones are unknown, never zero. Or a log.
    """
    headlines = _name_headlines(speedup, bandwidth, occupancy, kernel_us)
    if log is not None:
        _refuse_beside_log({**headlines, "profile": profile, "run": run, "metrics": metrics})
        if (found := await _diagnose(log, gpu)) is not None:
            return found
        profile = log
    source = _choose_metric_source(profile, run, target)
    numbers = GivenNumbers(metrics or {}, headlines, gpu, target, kernel)
    if what_if is not None:
        return await _answer_what_if(ctx, profile, what_if, numbers)
    config = get_server_config(ctx)
    if source is None and not kernel:  # takes 0.5 ms; a thread would add half of that
        answer = run_inline(lambda: _recommend_from_numbers(numbers))
    else:  # a report may take seconds, and a kernel's history is in a database
        argument, value = source or ("kernel", kernel)
        call = make_tool_call("recommend_fix", **{argument: value[:_MAX_SHOWN_CHARS]})
        answer = await run_to_the_end(ctx, call, lambda: _recommend(profile, run, numbers))
    await _log_answer(answer, config)
    named = f"{source[0]}={source[1]!r}" if source else ""
    return _build_result(answer, named, config, everything=bool(everything))


async def _log_answer(answer: Recommendation, config: ServerConfig) -> None:
    from kernelkb.actions.history.record_result import log_recommendation, should_log_to_session

    if not config.read_only and should_log_to_session():
        await run_in_thread(lambda: log_recommendation(answer["kernels"][0]))


async def _answer_what_if(
    ctx: Context, profile: str | None, changes: Mapping[str, str | int], numbers: GivenNumbers
) -> CallToolResult:
    """Return what a change of a profiled launch costs."""
    from kernelkb.actions.advice.recommend_report import predict_report_change

    if profile is None:
        raise ToolError("what_if needs the launch as it is: give profile=PATH, too")

    def predict() -> dict[str, Any]:
        return predict_report_change(
            profile,
            changes,
            kernel_pattern=numbers.kernel,
            metrics=numbers.metrics,
            gpu=numbers.gpu,
        )

    call = make_tool_call("recommend_fix", profile=profile[:_MAX_SHOWN_CHARS])
    return result_from_fields(build_what_if_fields(await run_to_the_end(ctx, call, predict)))


def _build_result(
    answer: Recommendation, named: str, config: ServerConfig, *, everything: bool
) -> CallToolResult:
    fields = build_recommend_fields(answer, named, config.tool_names, everything=everything)
    return result_from_fields(fields)


def _name_headlines(*values: float | str | None) -> dict[str, float | str]:
    return {flag: v for flag, v in zip(_HEADLINES, values, strict=True) if v is not None}


class GivenNumbers(NamedTuple):
    """What a call gives beside a report or a record."""

    metrics: Mapping[str, str | float]
    headlines: Mapping[str, str | float]
    gpu: str | None
    target: str
    kernel: str


async def _diagnose(log: str, gpu: str | None) -> CallToolResult | None:
    """Return the answer to a log; None where it is a profile."""
    found = await run_in_thread(lambda: diagnose_log_text(log, gpu))
    return None if found is None else result_from_fields(found)


def _refuse_beside_log(values: Mapping[str, Any]) -> None:
    """Raise ToolError if a log is not alone: its answer would not depend on the rest."""
    for name, value in values.items():
        if value is not None:
            raise ToolError(f"log and {name} are two questions; ask one at a time")


def _choose_metric_source(
    profile: str | None, run: str | None, target: str | None
) -> tuple[str, str] | None:
    """Return the (argument, value) that names a source of metrics, or None.

    Raises:
        ToolError: Two sources are given, or the report is of another target or no path of a file.
    """
    given = [(name, at) for name, at in (("profile", profile), ("run", run)) if at is not None]
    if len(given) > 1:
        raise ToolError("profile and run are two sources of metrics; recommend_fix(run=...) alone")
    if profile is not None and target == "cpu":
        raise ToolError("profile reads reports of a GPU; leave target out")
    if profile is not None and is_report_text(profile):
        if len(profile) > _MAX_REPORT_CHARS:
            raise ToolError(f"profile has {len(profile):,} characters; save it and give its path")
    elif profile is not None:
        run_inline(lambda: require_path("profile", profile))
    return given[0] if given else None


def _recommend(profile: str | None, run: str | None, numbers: GivenNumbers) -> Recommendation:
    """Return the engine's answer to a report, to a record, or to numbers alone."""
    if run is not None:
        return _recommend_from_record(run, numbers)
    if profile is not None:
        return _recommend_from_profile(profile, numbers)
    return _recommend_from_numbers(numbers)


def _recommend_from_numbers(numbers: GivenNumbers) -> Recommendation:
    """Answer numbers without a report."""
    from kernelkb.actions.advice.recommend import recommend_from_metrics

    return recommend_from_metrics(
        numbers.metrics,
        headlines=numbers.headlines,
        target=numbers.target,
        gpu=numbers.gpu,
        kernel=numbers.kernel,
    )


def _recommend_from_record(run: str, numbers: GivenNumbers) -> Recommendation:
    """Answer a recorded bench or profile."""
    from kernelkb.actions.advice.recommend_run import recommend_from_run

    return recommend_from_run(
        run,
        metrics=numbers.metrics,
        headlines=numbers.headlines,
        gpu=numbers.gpu,
        kernel=numbers.kernel,
    )


def _recommend_from_profile(profile: str, numbers: GivenNumbers) -> Recommendation:
    """Answer each kernel of a report whose name matches."""
    from kernelkb.actions.advice.recommend_report import recommend_from_report

    return recommend_from_report(
        profile,
        kernel_pattern=numbers.kernel,
        metrics=numbers.metrics,
        headlines=numbers.headlines,
        gpu=numbers.gpu,
        max_kernels=None,
    )
