"""What a fair baseline changes: candidates of our own for 20 tasks of KernelBench.

    python benchmarks/fair_baseline/fair_baseline.py --list
    python benchmarks/fair_baseline/fair_baseline.py KernelBench/level1

Tasks are KernelBench's own files, read from a folder of that project. Every task is benched with
its precision left open: a candidate that multiplies in TF32 is compared with torch in TF32. It
needs a GPU and Triton.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CANDIDATES_FOLDER = Path(__file__).parent / "candidates"


class Row(NamedTuple):
    """One candidate for one task."""

    task: int
    """Its number in level 1."""
    file: str
    """Of the candidate."""
    constants: dict[str, object]
    """Put in front of the candidate's text."""

    @property
    def name(self) -> str:
        """The file and the precision or operation."""
        word = self.constants.get("PRECISION") or self.constants.get("OPERATION")
        return f"{Path(self.file).stem} {word}" if word else Path(self.file).stem

    def make_candidate(self) -> str:
        """Return the candidate's text."""
        text = (CANDIDATES_FOLDER / self.file).read_text(encoding="utf-8")
        constants = "".join(f"{name} = {value!r}\n" for name, value in self.constants.items())
        return constants + text


def _product(task: int, precision: str, *, a: bool = False, b: bool = False) -> Row:
    constants = {"PRECISION": precision, "TRANSPOSE_A": a, "TRANSPOSE_B": b}
    return Row(task, "matmul.py", constants)


ROWS = (
    *(_product(1, precision) for precision in ("tf32", "tf32x3", "ieee", "fp16", "bf16")),
    *(_product(task, "tf32") for task in (2, 3, 6, 7, 8, 9, 10)),
    _product(16, "tf32", a=True),
    _product(17, "tf32", b=True),
    _product(18, "tf32", a=True, b=True),
    Row(19, "elementwise.py", {"OPERATION": "relu"}),
    Row(25, "elementwise.py", {"OPERATION": "swish"}),
    Row(26, "elementwise.py", {"OPERATION": "gelu"}),
    Row(23, "softmax.py", {}),
    Row(36, "rms_norm.py", {}),
)


class Outcome(NamedTuple):
    """One line of the table."""

    exact: str
    """Speedup over torch in fp32; ``~`` where it comes from a few batches."""
    fair: str
    admitted: str
    error: str
    """Of the candidate, relative."""
    verdict: str


def main() -> None:
    """Print the table; exit 1 where a task could not be benched."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", type=Path, nargs="?", help="KernelBench's folder level1")
    parser.add_argument("--list", action="store_true", help="print tasks and candidates, run none")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="this task's number")
    parser.add_argument("--budget", type=float, help="seconds of timing for each")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.only or row.task in options.only]
    if options.list:
        for row in rows:
            print(f"{row.task:>4}  {row.name}")
        return
    if options.tasks is None or not options.tasks.is_dir():
        sys.exit("fair_baseline.py: name KernelBench's folder level1, or --list")
    print(
        f"{'task':44}{'candidate':16}{'fp32':>8}{'fair':>22}  {'admitted':12}{'error':>9}  verdict"
    )
    failed = 0
    for name, row, outcome in _bench_rows(rows, options.tasks, options.budget):
        failed += outcome.verdict == "error"
        print(
            f"{name:44}{row.name:16}{outcome.exact:>8}{outcome.fair:>22}  {outcome.admitted:12}"
            f"{outcome.error:>9}  {outcome.verdict}",
            flush=True,
        )
    sys.exit(int(bool(failed)))


def _bench_rows(
    rows: list[Row], tasks: Path, budget_s: float | None
) -> Iterator[tuple[str, Row, Outcome]]:
    for row in rows:
        task = next(iter(sorted(tasks.glob(f"{row.task}_*.py"))), None)
        if task is None:
            print(f"no task {row.task} in {tasks}", file=sys.stderr)
            yield str(row.task), row, Outcome("-", "-", "-", "-", "error")
            continue
        with tempfile.TemporaryDirectory() as folder:
            candidate = Path(folder) / "candidate.py"
            candidate.write_text(row.make_candidate(), encoding="utf-8")
            yield task.stem[:43], row, _bench_one(task, candidate, budget_s)


def _bench_one(task: Path, candidate: Path, budget_s: float | None) -> Outcome:
    from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task
    from kernelkb.errors import KbError

    try:
        options = TASK_OPTIONS._replace(budget_s=budget_s)
        found = bench_task(str(task), str(candidate), "cuda", options=options, precision="open")
    except KbError as error:
        print(f"{task.stem}: {error}", file=sys.stderr)
        return Outcome("-", "-", "-", "-", "error")
    accuracy = found.accuracy
    if found.speedup is None or found.interval is None or accuracy is None:
        print(f"{task.stem}: {found.detail}", file=sys.stderr)
        return Outcome("-", "-", "-", "-", found.verdict)
    if found.verdict == "inconclusive":
        print(f"{task.stem}: {'; '.join(found.warnings)}", file=sys.stderr)
    low, high = found.interval
    exact = accuracy.exact_speedup
    return Outcome(
        f"{found.speedup:.2f}x" if exact is None else f"~{exact:.2f}x",
        f"{found.speedup:.2f}x [{low:.2f}, {high:.2f}]",
        ", ".join(accuracy.admitted) or "fp32 only",
        f"{accuracy.candidate_error:.0e}",
        found.verdict,
    )


if __name__ == "__main__":
    main()
