"""bench_kernel: check and time one variant, or the candidate of a task."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.model.records.measurement import Bench
from kernelkb_mcp.calls.arguments import Change, Kernel, Target, Variant, Workload, require_path
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.calls.long_calls import run_long_call
from kernelkb_mcp.views.next_call import format_step
from kernelkb_mcp.views.results import BenchResult, format_recommend_call

if TYPE_CHECKING:
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.model.records.measurement import Bench

TITLE = "Check and time a kernel variant"
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)

Against = Annotated[
    str | None,
    Field(description="A rival; V1,V2: each as a change.", max_length=500),
]
Task = Annotated[str | None, Field(description="Path; KernelBench-like.")]


async def bench_kernel(
    ctx: Context,
    kernel: Kernel | None = None,
    variant: Variant = None,
    target: Target = "auto",
    workload: Workload = None,
    against: Against = None,
    change: Change = None,
    again: Annotated[bool, Field(description="Even if on record. Default 0.")] = False,
    task: Task = None,
    candidate: Annotated[str | None, Field(description="Its path, for task.")] = None,
) -> Annotated[CallToolResult, BenchResult]:
    """Build and check a variant, and time it against the fastest rival.

    The verdict is faster, slower, inconclusive, incorrect or invalid, with a 95 % interval of the
    speedup over torch, torch.compile and baselines. Only correct ones are timed; a
    failure comes with a cure. Takes 10 to 60 s.
    """
    which = {"kernel": kernel, "variant": variant, "target": target, "workload": workload}
    how = {"against": against, "change": change, "again": again or None}
    call = make_tool_call("bench_kernel", **which, **how, task=task, candidate=candidate)
    if (kernel is None) == (task is None) or (task is None) != (candidate is None):
        raise ToolError("name a kernel, or give task and candidate, the paths of two files")
    if task is not None and candidate is not None:
        _refuse_ignored({"variant": variant, **how})
        return await run_long_call(
            ctx, BenchResult, call, partial(bench_foreign_task, task, candidate, target, workload)
        )

    def work() -> BenchResult:
        if against and {",", "+"} & set(against):
            return _bench_changes(kernel or "", variant, target, workload, against)
        return _bench_variant(kernel or "", variant, target, workload, (against, change, again))

    return await run_long_call(ctx, BenchResult, call, work)


def _bench_variant(
    kernel: str,
    variant: str | None,
    target: TargetChoice,
    workload: str | None,
    how: tuple[str | None, str | None, bool],
) -> BenchResult:
    """Time one variant; ``how`` is the rival, what was changed, and whether it is done again."""
    from kernelkb.actions.kernels.measure_variant import bench_variant
    from kernelkb.measure.subject import BenchOptions
    from kernelkb.render.text.measurements import describe_bench

    against, change, again = how
    options = BenchOptions(against=against, change=change, again=again)
    bench = bench_variant(kernel, variant, target, workload, options)
    follow = _list_next_steps(bench, against, workload)
    return BenchResult(summary=describe_bench(bench), bench=bench, next=follow)


def _bench_changes(
    kernel: str, variant: str | None, target: TargetChoice, workload: str | None, changes: str
) -> BenchResult:
    """Time each of some variants alone against a base; the bench is that of the fastest change."""
    from kernelkb.actions.kernels.bench_changes import bench_changes
    from kernelkb.render.text.measurements import format_change_table

    table = bench_changes(kernel, changes, variant, target, workload)
    ranked = sorted(table.changes, key=lambda one: -(one.ratio or 0.0))
    best = ranked[0].last_bench
    if best is not None:
        best = best.model_copy(update={"warnings": ()})  # the summary has those of all
    follow = f"read_entry(id='attempts/{table.kernel}')"
    summary = "\n".join(format_change_table(table))
    return BenchResult(summary=summary, bench=best, next=(follow,))


def _refuse_ignored(values: Mapping[str, Any]) -> None:
    """Raise ToolError if an argument is given that a task does not use."""
    for name, value in values.items():
        if value:
            raise ToolError(f"{name} is for a kernel, not for a task; leave it out")


def _list_next_steps(bench: Bench, against: str | None, workload: str | None) -> tuple[str, ...]:
    from kernelkb.actions.sessions.sessions import step_after_bench
    from kernelkb.measure.machine.host import find_cuda_tool

    call = format_step(step_after_bench(bench, against, workload))
    if bench.has_failed:
        return (f"correct the source of {bench.variant}, by bench.cure", call)
    is_decided = bool(bench.measurement or bench.metrics)
    if bench.target == "cuda" and is_decided and find_cuda_tool("ncu") is None:
        return (format_recommend_call(bench),)  # nothing could profile it
    return (call,)


_CHANGE = "change the candidate"


def bench_foreign_task(
    task: str, candidate: str, target: TargetChoice, workload: str | None
) -> BenchResult:
    """Check and time a candidate; a problem of ComputeEval is tested by its own commands.

    Raises:
        ToolError: One of the two is the text of a file.
        ForbiddenPathError: One leads out of the workspace.
        BadValueError: A file has another format.
        EnvironmentGapError: The machine lacks a compiler, torch or a GPU.
    """
    from kernelkb.actions.kernels.foreign_tasks import bench_task
    from kernelkb.adapters.compute_eval import is_compute_eval
    from kernelkb.render.text.measurements import describe_bench

    require_path("task", task.partition("#")[0])
    require_path("candidate", candidate)
    again = f"bench_kernel(task={task!r}, candidate={candidate!r})"
    if is_compute_eval(task):
        return _check_problem(task, candidate, target, again)
    bench = bench_task(task, candidate, target, workload)
    return BenchResult(
        summary=describe_bench(bench), bench=bench, next=_list_steps_of_task(bench, again)
    )


def _list_steps_of_task(bench: Bench, again: str) -> tuple[str, ...]:
    if bench.has_failed or not (bench.measurement or bench.metrics):
        return (_CHANGE, again)
    return (format_recommend_call(bench),)


def _check_problem(task: str, candidate: str, target: TargetChoice, again: str) -> BenchResult:
    from kernelkb.actions.kernels.foreign_tasks import check_problem

    found = check_problem(task, candidate, target)
    return BenchResult(
        summary=f"{found.status}: {found.detail}",
        bench=None,
        problem=found.model_dump(mode="json"),
        next=(_CHANGE, again),
    )
