"""Benches the candidate of another project's task for bench_kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelkb_mcp.arguments import require_path
from kernelkb_mcp.results import BenchResult, format_recommend_call

if TYPE_CHECKING:
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.model.records.measurement import Bench

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
        summary=describe_bench(bench), bench=bench, next=_list_next_steps(bench, again)
    )


def _list_next_steps(bench: Bench, again: str) -> tuple[str, ...]:
    if bench.has_failed or not (bench.measurement or bench.metrics):
        return (_CHANGE, again)
    return (format_recommend_call(bench),)


def _check_problem(task: str, candidate: str, target: TargetChoice, again: str) -> BenchResult:
    from kernelkb.actions.kernels.compute_eval import check_problem

    found = check_problem(task, candidate, target)
    return BenchResult(
        summary=f"{found.status}: {found.detail}",
        bench=None,
        problem=found.model_dump(mode="json"),
        next=(_CHANGE, again),
    )
