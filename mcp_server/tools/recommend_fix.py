"""recommend_fix: metrics in, the next fix or the next measurement out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from engine.model.recommendation import Recommendation
from mcp_server.edge import compact, in_thread

TITLE = "Recommend the next fix"
HINTS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

Number = Annotated[float, Field(strict=True)] | str | None
Speedup = Annotated[Number, Field(description="Reference time / our time; above 1 is faster.")]
Bandwidth = Annotated[
    Number, Field(description="Share of peak memory bandwidth, 0 to 1, or a text like '40%'.")
]
Occupancy = Annotated[
    Number, Field(description="Achieved occupancy, 0 to 1, or a text like '40%'.")
]
Microseconds = Annotated[Number, Field(description="Kernel duration in microseconds.")]
Gpu = Annotated[str | None, Field(description="GPU as the driver names it.")]
Target = Annotated[
    Literal["cuda", "cpu"], Field(description="Where the numbers come from. Default cuda.")
]
Kernel = Annotated[
    str,
    Field(
        max_length=500,
        description="Name for the answer; with profile a pattern that picks kernels.",
    ),
]
Report = Annotated[
    str | None,
    Field(description="Path of a report of Nsight Compute: .ncu-rep, or raw or details CSV."),
]
Metrics = Annotated[
    dict[str, float | str] | None,
    Field(description="Any other metric by id, such as over_fetch or waves."),
]


async def recommend_fix(
    speedup: Speedup = None,
    bandwidth: Bandwidth = None,
    occupancy: Occupancy = None,
    kernel_us: Microseconds = None,
    gpu: Gpu = None,
    target: Target = "cuda",
    kernel: Kernel = "",
    profile: Report = None,
    metrics: Metrics = None,
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
        ask = partial(recommend, more, headlines=headlines, target=target, gpu=gpu, kernel=kernel)
    else:
        ask = partial(
            recommend_report, profile, only=kernel, metrics=more, headlines=headlines, gpu=gpu
        )
    return compact(await in_thread(partial(_written_down, ask)))


def _written_down(ask: Callable[[], object]) -> Recommendation:
    """Answer, and note it in the open session: one trip to a thread, which costs a tenth."""
    from engine.actions.diary import advised

    answer = Recommendation.model_validate(ask())
    advised(answer.kernels[0])
    return answer
