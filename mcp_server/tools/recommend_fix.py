"""recommend_fix: metrics in, the next fix or the next measurement out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb_mcp.recommend_view import advice
from kernelkb_mcp.results import RecommendResult
from kernelkb_mcp.tool_adapter import compacted, in_place, in_thread, launch_of

TITLE = "Recommend the next fix"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

Number = Annotated[float, Field(strict=True)] | str | None
Speedup = Annotated[Number, Field(description="Reference time / our time; above 1 is faster.")]
Bandwidth = Annotated[Number, Field(description="Share of peak memory bandwidth, 0 to 1 or '40%'.")]
Occupancy = Annotated[Number, Field(description="Achieved occupancy, 0 to 1 or '40%'.")]
Microseconds = Annotated[Number, Field(description="Kernel time in microseconds.")]
Gpu = Annotated[str | None, Field(description="GPU as the driver names it.", max_length=100)]
Target = Annotated[Literal["cuda", "cpu"], Field(description="Default cuda.")]
Kernel = Annotated[
    str,
    Field(max_length=500, description="Name for the answer; with profile a regex of kernels."),
]
Report = Annotated[
    str | None, Field(description="Path of an Nsight Compute report: .ncu-rep or CSV.")
]
Run = Annotated[
    str | None,
    Field(max_length=32, description="Id of a bench or profile: its measurement."),
]
Metrics = Annotated[
    dict[str, float | str] | None, Field(description="Other metrics by id, such as over_fetch.")
]


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
) -> Annotated[CallToolResult, RecommendResult]:
    """Say whether to go on, what limits a kernel, and the one change to make, or what to measure.

    Give run, profile or numbers, whatever was measured; what is absent is unknown, never zero.
    Causes are named only as far as the evidence goes; fixes come with a predicted gain.
    """
    from kernelkb.actions.session_log import advised, listening

    given = {
        "speedup": speedup,
        "bandwidth": bandwidth,
        "occupancy": occupancy,
        "kernel-us": kernel_us,
    }
    headlines = {flag: value for flag, value in given.items() if value is not None}
    source = _source(profile, run)
    more = {"metrics": metrics or {}, "headlines": headlines, "gpu": gpu}
    launch = launch_of(ctx)
    ask = partial(_asked, source, kernel, target, more)
    # Numbers alone take half a millisecond; the way to a thread and back adds half of it.
    answer = in_place(ask) if source is None else await in_thread(ask)
    if not launch.read_only and listening():
        await in_thread(lambda: advised(answer["kernels"][0]))
    named = f"{source[0]}={source[1]!r}" if source else ""
    return compacted(advice(answer, named, launch.tools))  # the SDK holds it to its schema


def _source(profile: str | None, run: str | None) -> tuple[str, str] | None:
    """Return where the metrics come from besides the arguments.

    Raises:
        ToolError: From two places.
    """
    given = [(name, at) for name, at in (("profile", profile), ("run", run)) if at is not None]
    if len(given) > 1:
        raise ToolError("profile and run are two sources of metrics; recommend_fix(run=...) alone")
    return given[0] if given else None


def _asked(
    source: tuple[str, str] | None, kernel: str, target: str, more: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Ask the engine, each source in its own way."""
    from kernelkb.actions.recommend import recommend

    if source is None:
        return recommend(**more, target=target, kernel=kernel)
    if source[0] == "run":
        from kernelkb.actions.recommend_run import recommend_run

        return recommend_run(source[1], **more, kernel=kernel)
    from kernelkb.actions.recommend_report import recommend_report

    if target == "cpu":
        raise ToolError("profile reads reports of a GPU; leave target out")
    return recommend_report(source[1], **more, only=kernel, most=None)
