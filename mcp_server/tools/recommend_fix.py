"""recommend_fix: metrics in, the next fix or the next measurement out."""

from __future__ import annotations

from typing import Annotated, Literal

from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from engine.model.recommendation import Recommendation
from mcp_server.edge import compact, in_thread

TITLE = "Recommend the next fix"
ANNOTATIONS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

Number = Annotated[float, Field(strict=True)] | str | None


async def recommend_fix(
    speedup: Annotated[
        Number, Field(description="Reference time / our time; above 1 is faster.")
    ] = None,
    bandwidth: Annotated[
        Number, Field(description="Share of peak memory bandwidth, 0 to 1, or a text like '40%'.")
    ] = None,
    occupancy: Annotated[
        Number, Field(description="Achieved occupancy, 0 to 1, or a text like '40%'.")
    ] = None,
    kernel_us: Annotated[Number, Field(description="Kernel duration in microseconds.")] = None,
    gpu: Annotated[str | None, Field(description="GPU as the driver names it.")] = None,
    target: Annotated[
        Literal["cuda", "cpu"], Field(description="Where the numbers come from. Default cuda.")
    ] = "cuda",
    kernel: Annotated[
        str,
        Field(
            max_length=500,
            description="Name for the answer; with profile a pattern that picks kernels.",
        ),
    ] = "",
    profile: Annotated[
        str | None,
        Field(description="Path of a report of Nsight Compute: .ncu-rep, or raw or details CSV."),
    ] = None,
    metrics: Annotated[
        dict[str, float | str] | None,
        Field(description="Any other metric by id, such as over_fetch or waves."),
    ] = None,
) -> Annotated[CallToolResult, Recommendation]:
    """Say whether to go on, what limits a kernel, and the one change to make, or what to measure.

    Give what was measured and leave out the rest: a number that is absent counts as unknown, never
    as zero. The answer names causes only as far as the evidence goes, prices each fix with an
    interval, and lists the metrics to collect next with the exact command.
    """
    from engine.actions.recommend import recommend
    from engine.actions.report import recommend_report

    given = {
        "speedup": speedup,
        "bandwidth": bandwidth,
        "occupancy": occupancy,
        "kernel-us": kernel_us,
    }
    headlines = {flag: value for flag, value in given.items() if value is not None}
    more = metrics or {}
    if profile is None:
        answer = await in_thread(
            lambda: recommend(more, headlines=headlines, target=target, gpu=gpu, kernel=kernel)
        )
    else:
        answer = await in_thread(
            lambda: recommend_report(
                profile, only=kernel, metrics=more, headlines=headlines, gpu=gpu
            )
        )
    return compact(Recommendation.model_validate(answer))
