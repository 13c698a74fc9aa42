"""How much memory the judge's process takes, as a multiple of a task's inputs and outputs.

    python benchmarks/judge_memory.py
    python benchmarks/judge_memory.py --task gelu --mib 1024

Each task is a model that is its own candidate. Its check and its bench are run on the CPU; the
judge's peak is the kernel's high-water mark of the process (``VmHWM``), which counts the memory it
shares with the candidate once, less that of the same task with a few elements.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.kernels.measure_variant import build_prepared
from kernelkb.actions.project.bench_target import BenchTarget, prepare_loaded
from kernelkb.adapters.kernelbench import convert_kernelbench_task
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.bench.bench import bench
from kernelkb.measure.check.check import check
from kernelkb.measure.job_specs import working_set_bytes
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.records.measurement import Build
from kernelkb.units import format_size

_POLL_S = 0.005
_COLUMNS = 4096
_FEW_ROWS = 16
_MIB = 2**20
_TASK = """\
import torch


class {name}(torch.nn.Module):
    def forward(self, {arguments}):
        return {result}


def get_inputs():
    return [torch.rand({rows}, {columns}) for _ in range({count})]


def get_init_inputs():
    return []
"""


class Task(NamedTuple):
    """One line of the table."""

    name: str
    arguments: tuple[str, ...]
    result: str
    mib: int
    """Of each input."""


TASKS = (
    Task("gelu", ("x",), "torch.nn.functional.gelu(x)", 256),
    Task("row_sum", ("x",), "x.sum(1, keepdim=True)", 1024),
    Task("three_inputs", ("x", "y", "z"), "x * y + z", 128),
    Task("batch_norm", ("x",), "(x - x.mean(0)) / x.std(0)", 256),
    Task("mean_loss", ("x", "y"), "((x - y) ** 2).mean()", 256),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", choices=[task.name for task in TASKS])
    parser.add_argument("--mib", type=int, help="of each input; default: the task's own")
    options = parser.parse_args()
    print(f"{'task':14}{'in + out':>10}  step   {'verdict':14}{'peak':>10}  times in + out")
    for task in TASKS:
        if options.task in (None, task.name):
            measure_task(task._replace(mib=options.mib or task.mib))


def measure_task(task: Task) -> None:
    """Print the lines of a check and of a bench."""
    rows = task.mib * _MIB // 4 // _COLUMNS
    with tempfile.TemporaryDirectory() as folder:
        few = prepare_task(Path(folder) / "few", task, _FEW_ROWS)
        many = prepare_task(Path(folder) / "many", task, rows)
        for step, run in (("check", run_check), ("bench", run_bench)):
            _, base = measure_judge(lambda run=run: run(*few))  # type: ignore[misc]
            verdict, peak = measure_judge(lambda run=run: run(*many))  # type: ignore[misc]
            size = count_bytes(many[0])
            times = (peak - base) / size
            print(
                f"{task.name:14}{format_size(size):>10}  {step}  {verdict:14}"
                f"{format_size(peak - base):>10}  {times:.2f}",
                flush=True,
            )


def prepare_task(folder: Path, task: Task, rows: int) -> tuple[BenchTarget, Build]:
    """Write a task with its own model as the candidate, and build it."""
    folder.mkdir()
    for name in ("Model", "ModelNew"):
        text = _TASK.format(
            name=name,
            arguments=", ".join(task.arguments),
            result=task.result,
            rows=rows,
            columns=_COLUMNS,
            count=len(task.arguments),
        )
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    files = convert_kernelbench_task(folder / "Model.py", folder / "ModelNew.py", "cpu")
    kernel_folder = load_kernel_folder(files.write(folder / ".kb" / "tasks"))
    place = prepare_loaded(kernel_folder, None, "cpu")
    return place, build_prepared(place)


def count_bytes(place: BenchTarget) -> int:
    """Return the bytes of a task's inputs and outputs."""
    return working_set_bytes(place.subject.kernel_folder, get_workload(place))


def get_workload(place: BenchTarget) -> str:
    """Return the task's only workload."""
    return next(iter(place.subject.kernel_folder.kernel.workloads))


def run_check(place: BenchTarget, built: Build) -> str:
    """Check, and return the status."""
    found = check(place.subject, built, workloads=[get_workload(place)], timeout_s=600)
    for note in found.notes:
        print(f"    {note}")
    return found.status if found.status == "correct" else f"{found.status}: {found.detail}"


def run_bench(place: BenchTarget, built: Build) -> str:
    """Time, and return the verdict."""
    found = bench(
        place.subject,
        built,
        workload=get_workload(place),
        options=BenchOptions(timeout_s=900, budget_s=1.0),
    )
    for warning in found.warnings:
        print(f"    {warning}")
    return found.verdict


def measure_judge(run: Callable[[], str]) -> tuple[str, int]:
    """Run something that starts a judge; return its answer, and the judge's peak in bytes.

    The judge's scratch folder, in a folder of its own, tells it from other judges of the machine.
    """
    usual = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        try:
            peak = _JudgePeak()
            with peak:
                return run(), peak.stop()
        finally:
            tempfile.tempdir = usual


class _JudgePeak:
    """Reads the high-water mark of the judge's process in a thread."""

    def __init__(self) -> None:
        self._highest = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Return the highest mark, bytes."""
        self._stop.set()
        self._thread.join()
        return self._highest

    def _poll(self) -> None:
        pid = None
        while not self._stop.is_set():
            pid = pid or find_judge()
            if pid is not None:
                with suppress(OSError, ValueError, IndexError):
                    self._highest = max(self._highest, read_mark(pid))
            time.sleep(_POLL_S)


def find_judge() -> int | None:
    """Return the pid of a running judge; None where there is none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
            is_worker = len(words) > 2 and words[-2].endswith(b"worker/start.py")
            is_direct = is_worker and len(words) == len([b"python", b"-P", b"start.py", b"job"])
            is_own = words[-1].startswith(tempfile.gettempdir().encode())
            if is_direct and is_own and words[-1].endswith(b"/judge.json"):
                return int(path.parent.name)
    return None


def read_mark(pid: int) -> int:
    """Return the high-water mark of a process's resident memory, bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
