"""What ``import kernelkb`` offers to a program: the verbs of ``kb`` as functions.

Each function calls what the command of the same name calls, and imports it only then. A mistake of
the caller is a ``kernelkb.errors.KbError`` whose text ends with the cure.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    import ast

    from kernelkb.actions.advice.calculators import LogDiagnosis
    from kernelkb.model.answers.recommendation import PrintedRecommendation
    from kernelkb.model.records.measurement import Bench

    Number = str | float
    """A number, or text such as ``40%``."""
    FileFunction = Callable[..., Any] | str
    """A function at the top of a file, or ``path/to/file.py:name``."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def recommend(
    metrics: Mapping[str, Number] = _NOTHING,
    *,
    speedup: Number | None = None,
    bandwidth: Number | None = None,
    occupancy: Number | None = None,
    kernel_us: Number | None = None,
    target: Literal["cuda", "cpu"] = "cuda",
    gpu: str | None = None,
    kernel: str = "",
) -> PrintedRecommendation:
    """Return the next fix, or the next measurement, for one kernel.

    Args:
        metrics: Further values by metric id (``kb show metrics``) or Nsight Compute's name.
        speedup: Reference time ÷ own time; above 1 is faster.
        bandwidth: Share of the peak memory bandwidth, 0 to 1.
        occupancy: Achieved occupancy, 0 to 1.
        kernel_us: Duration of the kernel in microseconds.
        target: The hardware that the numbers come from.
        gpu: Any name of the GPU.
        kernel: The kernel's name, for the answer.

    Returns:
        One answer in ``["kernels"]``: its ``gate``, its ``diagnoses`` with fixes, its ``next``.

    Raises:
        UnknownNameError: A metric or GPU that does not exist.
        BadValueError: A value that its metric cannot have.
    """
    from kernelkb.actions.advice.recommend import recommend_from_metrics
    from kernelkb.render.text.steps import print_recommendation

    flags = ("speedup", "bandwidth", "occupancy", "kernel-us")
    pairs = zip(flags, (speedup, bandwidth, occupancy, kernel_us), strict=True)
    headlines = {flag: value for flag, value in pairs if value is not None}
    found = recommend_from_metrics(
        metrics, headlines=headlines, target=target, gpu=gpu, kernel=kernel
    )
    return print_recommendation(found)


def read_report(
    path: str | os.PathLike[str],
    *,
    kernel: str | None = None,
    metrics: Mapping[str, Number] = _NOTHING,
    speedup: Number | None = None,
    gpu: str | None = None,
    max_kernels: int | None = None,
) -> PrintedRecommendation:
    """Return the answers for the kernels of a report of Nsight Compute, the longest first.

    Args:
        path: A ``.ncu-rep`` file, or a CSV page of one.
        kernel: A regular expression; kernels whose name does not match are left out.
        metrics: Values that hold for every kernel, by metric id.
        speedup: Reference time ÷ own time, which no report holds.
        gpu: The GPU, where the report names none.
        max_kernels: Kernels in the answer; None for all.

    Raises:
        KbError: The file is no report, or no kernel matches.
    """
    from kernelkb.actions.advice.recommend_report import recommend_from_report
    from kernelkb.render.text.steps import print_recommendation

    found = recommend_from_report(
        os.fspath(path),
        kernel_pattern=kernel,
        metrics=metrics,
        headlines={} if speedup is None else {"speedup": speedup},
        gpu=gpu,
        max_kernels=max_kernels,
    )
    return print_recommendation(found)


def diagnose(log: str, *, gpu: str | None = None) -> LogDiagnosis:
    """Return the known failures in the log of a build, a load or a run, each with its cure.

    Args:
        log: The text that the compiler, the loader or the program printed.
        gpu: The GPU that the program was built for.
    """
    from kernelkb.actions.advice.calculators import diagnose_log

    return diagnose_log(log, gpu)


def occupancy(
    threads: int,
    registers: int,
    *,
    gpu: str | None = None,
    architecture: str | None = None,
    static_smem: str | int = 0,
    dynamic_smem: str | int = 0,
    carveout: str | int | None = None,
    barriers: int = 0,
    grid: int | None = None,
    blocks: int | None = None,
    sm_count: int | None = None,
) -> dict[str, Any]:
    """Return how many blocks of a launch fit on an SM, what limits them, and the next step.

    Args:
        threads: Per block.
        registers: Per thread.
        gpu: Any name of the GPU.
        architecture: ``9.0`` or ``sm_90``, instead of a GPU.
        static_smem: Bytes of a block that the kernel declares, or text such as ``48KiB``.
        dynamic_smem: Bytes of a block that the launch adds.
        carveout: Preferred shared memory per SM in bytes or as ``50%``.
        barriers: Named barriers of a block.
        grid: Blocks of the launch, for its waves.
        blocks: Wanted blocks per SM.
        sm_count: SMs of a GPU that is not listed.

    Raises:
        UnknownNameError: No such GPU or architecture.
        BadValueError: A number outside of what a launch can have.
    """
    from kernelkb.actions.advice.calculators import OccupancyQuery, analyze_occupancy

    given: Mapping[str, str | float] = {} if sm_count is None else {"sm_count": sm_count}
    query = OccupancyQuery(
        threads, registers, gpu, architecture, static_smem, dynamic_smem, carveout, barriers, grid
    )
    return analyze_occupancy(query._replace(blocks=blocks, given=given))


def roofline(
    *,
    bytes: str | int | None = None,  # noqa: A002 the command's word
    flop: Number | None = None,
    dtype: str | None = None,
    us: Number | None = None,
    gpu: str | None = None,
    architecture: str | None = None,
    cold: bool = False,
    given: Mapping[str, Number] = _NOTHING,
) -> dict[str, Any]:
    """Return the shortest possible time of some work on a GPU, and the roof that binds.

    Args:
        bytes: Bytes that every correct kernel moves, or text such as ``1GiB``.
        flop: Operations that every correct kernel executes.
        dtype: Such as ``fp16``; None: the fastest unit.
        us: Measured time in microseconds, for the headroom.
        gpu: Any name of the GPU.
        architecture: ``9.0`` or ``sm_90``, instead of a listed GPU.
        cold: Assume cold caches, however small the data.
        given: Numbers of a GPU that is not listed, such as ``{"dram_gbps": 3350}``.

    Raises:
        UnknownNameError: No such GPU or architecture.
        BadValueError: A number that the work cannot have.
    """
    from kernelkb.actions.advice.calculators import RooflineQuery, analyze_roofline

    query = RooflineQuery(gpu, bytes, flop, dtype, us, cold)
    return analyze_roofline(query._replace(architecture=architecture, given=given))


def bench(
    candidate: FileFunction,
    reference: FileFunction,
    make_inputs: FileFunction,
    *,
    target: Literal["auto", "cpu", "cuda"] = "auto",
    budget_s: float | None = None,
    timeout_s: float = 600.0,
) -> Bench:
    """Check a function against a reference, and time both in turns.

    Nothing runs in this process: the judge starts the candidate in a sandbox. So each function
    stands at the top of a file, whose text is copied. It is recorded as ``kb bench --task`` is.

    Args:
        candidate: Takes the inputs, returns a tensor or several.
        reference: The same, and right; the candidate has to beat it as it is and compiled.
        make_inputs: Without arguments; returns a list of tensors. Stands in the reference's file.
        target: Where both run; ``auto`` takes CUDA where there is a GPU.
        budget_s: Seconds of timing; None: 3, or ``KB_BUDGET``.
        timeout_s: Limit for the check and for the bench, in seconds each.

    Returns:
        ``verdict`` (faster, slower, inconclusive, incorrect, ...), ``speedup`` with its 95 %
        ``interval``, both None where nothing was timed, ``detail``, ``baseline`` and more.

    Raises:
        BadValueError: A function does not stand at the top of a file, or the file starts a bench
            when it is imported.
        EnvironmentGapError: This machine lacks a compiler, torch or a GPU.
    """
    tried, right, inputs = map(_find_in_file, (candidate, reference, make_inputs))
    if inputs.file != right.file:
        raise BadValueError(
            f"{inputs.name} stands in {inputs.file}, {right.name} in {right.file}; "
            "write both into one file"
        )
    task = right.text + _TASK_END.format(call=right.name, inputs=inputs.name)
    model = tried.text + _CANDIDATE_END.format(call=tried.name)
    return _bench_texts(right.name, task, model, target, (timeout_s, budget_s))


def _bench_texts(
    name: str,
    task: str,
    candidate: str,
    target: Literal["auto", "cpu", "cuda"],
    seconds: tuple[float, float | None],
) -> Bench:
    """Bench a task of KernelBench and its candidate by their texts; the limit, then the budget."""
    from kernelkb.actions.kernels.foreign_tasks import bench_task
    from kernelkb.measure.process.subprocesses import scratch_folder
    from kernelkb.measure.subject import BenchOptions

    with scratch_folder() as folder:
        files = folder / f"{name}.py", folder / "candidate.py"
        for file, text in zip(files, (task, candidate), strict=True):
            file.write_text(text, "utf-8")
        options = BenchOptions(timeout_s=seconds[0], budget_s=seconds[1])
        return bench_task(str(files[0]), str(files[1]), target, options=options)


_TASK_END = """

import torch as _torch

_right, _make_inputs = {call}, {inputs}


class Model(_torch.nn.Module):
    def forward(self, *inputs):
        return _right(*inputs)


def get_inputs():
    return list(_make_inputs())


def get_init_inputs():
    return []
"""
_CANDIDATE_END = """

import torch as _torch

_candidate = {call}


class ModelNew(_torch.nn.Module):
    def forward(self, *inputs):
        return _candidate(*inputs)
"""


class _FoundFunction(NamedTuple):
    """A function by its name at the top of a file, and the file's text."""

    name: str
    file: str
    text: str


def _find_in_file(function: FileFunction) -> _FoundFunction:
    """Return where a function stands.

    Raises:
        BadValueError: Another process could not find it there.
    """
    name, file = _locate(function)
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123 no pathlib here
            text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadValueError(f"cannot read {file}: {error}; name a file of Python source") from error
    _require_importable(name, file, text)
    return _FoundFunction(name, os.path.realpath(file), text)


def _locate(function: FileFunction) -> tuple[str, str]:
    """Return the name and the file of a function, neither checked.

    Raises:
        BadValueError: It has none, as a lambda, a closure or a function that was typed.
    """
    cure = "write it as a function at the top of a file, or name it as 'file.py:name'"
    if isinstance(function, str):
        file, _, name = function.rpartition(":")
        if not file or not name.isidentifier():
            raise BadValueError(f"{function!r} names no function; write 'path/to/file.py:name'")
        return name, file
    shown = getattr(function, "__qualname__", type(function).__name__)
    if not inspect.isfunction(function) or not shown.isidentifier():
        raise BadValueError(f"{shown} cannot be found by another process; {cure}")
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    if not os.path.isfile(file):  # noqa: PTH113
        raise BadValueError(f"{shown} was defined in {file}, which is no file; {cure}")
    return shown, file


def _require_importable(name: str, file: str, text: str) -> None:
    """Refuse a file that lacks the name, or that would start a bench in the judge.

    Raises:
        BadValueError: It is such a file, or no Python.
    """
    import ast

    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BadValueError(f"{file}:{error.lineno}: {error.msg}; correct it first") from error
    if name not in {word for node in tree.body for word in _iter_defined_names(node)}:
        raise BadValueError(f"{file} defines no {name} at its top; write it there")
    for node in tree.body:
        if isinstance(node, ast.Expr | ast.Assign) and _calls_bench(node):
            raise BadValueError(
                f"{file}:{node.lineno} starts a bench whenever the file is imported; put it below "
                'if __name__ == "__main__":'
            )


def _iter_defined_names(node: ast.stmt) -> list[str]:
    import ast

    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return []


def _calls_bench(node: ast.stmt) -> bool:
    import ast

    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return any("bench" in (getattr(c, "id", None), getattr(c, "attr", None)) for c in calls)
