r"""Whether a task whose candidate is its own model is judged at all, in what memory, and as equal.

    python benchmarks/own_models.py KernelBench/level1 --target cuda --memory-gib 80
    CUDA_VISIBLE_DEVICES=0,1 python benchmarks/own_models.py KernelBench/level2 --target cuda \
        --workers 2

Tasks are KernelBench's own files, as they are. The candidate is the model under its other name, so
nothing may be called incorrect or invalid, no task may fail for memory, and a verdict other than
``inconclusive`` is a wrong one. torch.compile is disabled: it may well be faster than the model.
Prints a row for each task and the totals; exits 1 unless all are as they should be.

Workers take the GPUs of ``CUDA_VISIBLE_DEVICES`` in turn, indices as NVML counts them; without it
all use the first. The column ``GPU`` is the most GiB of its GPU in use while a task was judged, all
processes together; it says something of one task only where no other worker has the same GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

TIMEOUT_S = 600.0
_POLL_S = 0.02
_GIB = 2**30


class Outcome(NamedTuple):
    """One row of the table."""

    task: str
    verdict: str
    """``error`` where there is none, ``skipped`` where the time was up before."""
    speedup: str
    seconds: float
    gpu_gib: float
    detail: str
    warnings: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", type=Path, nargs="+", help="files, or folders of them")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="tasks side by side")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of taking times")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no task after these")
    parser.add_argument("--memory-gib", type=float, help="fail where more of the GPU is in use")
    parser.add_argument("--notes", action="store_true", help="print the warnings of each verdict")
    options = parser.parse_args(arguments)
    if options.workers > 1:
        os.environ["KB_DEVICE_QUEUE"] = "off"  # parallel runs are requested here
    end = time.monotonic() + options.seconds
    gpus: Queue[int] = Queue()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
    for _, index in zip(range(options.workers), itertools.cycle(visible), strict=False):
        gpus.put(int(index))
    print(f"{'task':48}{'verdict':22}{'speedup':>22}{'s':>7}{'GPU':>7}", flush=True)
    found = []
    with ThreadPoolExecutor(options.workers) as threads:
        for outcome in threads.map(
            lambda task: _judge_on_free_gpu(task, gpus, options.target, options.budget, end),
            list(_list_tasks(options.tasks)),
        ):
            found.append(outcome)
            _print_row(outcome, with_notes=options.notes)
    totals = Counter(outcome.verdict for outcome in found)
    print(", ".join(f"{count} {word}" for word, count in totals.most_common()))
    most = max((outcome.gpu_gib for outcome in found), default=0.0)
    is_too_much = options.memory_gib is not None and most > options.memory_gib
    accused = [one for one in found if not one.verdict.startswith(("inconclusive", "skipped"))]
    sys.exit(int(bool(accused) or is_too_much))


def _list_tasks(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        files = path.glob("*.py") if path.is_dir() else [path]
        yield from sorted(files, key=lambda file: (len(file.stem.split("_")[0]), file.stem))


def write_candidate(task: Path, folder: Path) -> Path:
    """Write the task's own model as its candidate."""
    candidate = folder / "candidate.py"
    text = re.sub(r"\bModel\b", "ModelNew", task.read_text(encoding="utf-8"))
    candidate.write_text(text, encoding="utf-8")
    return candidate


def _judge_on_free_gpu(
    task: Path, gpus: Queue[int], target: str, budget_s: float, end: float
) -> Outcome:
    gpu = gpus.get()
    try:
        return _judge(task, gpu, target, budget_s, end)
    finally:
        gpus.put(gpu)


def _judge(task: Path, gpu: int, target: str, budget_s: float, end: float) -> Outcome:
    started = time.monotonic()
    if started > end:
        return Outcome(task.stem, "skipped", "-", 0.0, 0.0, "", ())
    with (
        tempfile.TemporaryDirectory(prefix="own-models-") as name,
        _GpuMemory(target, gpu) as memory,
    ):
        folder = Path(name)
        argv = [
            *(sys.executable, "-c", "from kernelkb.cli import start; start()", "bench"),
            *("--task", str(task.resolve()), "--candidate", str(write_candidate(task, folder))),
            *("--target", target, "--budget", str(budget_s), "--json"),
        ]
        environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1"}
        if target == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
        try:
            done = subprocess.run(
                argv,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            seconds, detail = time.monotonic() - started, f"no verdict within {TIMEOUT_S:.0f} s"
            return Outcome(task.stem, "error", "-", seconds, memory.most_gib, detail, ())
        seconds = time.monotonic() - started
    return _read_answer(task.stem, done, seconds, memory.most_gib)


def _read_answer(
    name: str, done: subprocess.CompletedProcess[str], seconds: float, gpu_gib: float
) -> Outcome:
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Outcome(name, "error", "-", seconds, gpu_gib, last, ())
    verdict, speedup = str(answer["verdict"]), "-"
    if answer.get("interval"):
        low, high = answer["interval"]
        speedup = f"{answer['speedup']:.3f} [{low:.3f}, {high:.3f}]"
    if answer.get("disturbed_by"):
        verdict += " (noisy)"
    notes = (*answer.get("warnings", ()), *answer.get("notes", ()))
    return Outcome(name, verdict, speedup, seconds, gpu_gib, answer["detail"] or "", notes)


def _print_row(outcome: Outcome, *, with_notes: bool) -> None:
    print(
        f"{outcome.task[:47]:48}{outcome.verdict:22}{outcome.speedup:>22}"
        f"{outcome.seconds:>7.1f}{outcome.gpu_gib:>7.1f}",
        flush=True,
    )
    if not outcome.verdict.startswith(("inconclusive", "skipped")):
        print(f"    {outcome.detail}", flush=True)
    if with_notes:
        for note in outcome.warnings:
            print(f"    {note}", flush=True)


class _GpuMemory:
    """Polls how much memory of a GPU is in use.

    Attributes:
        most_gib: The most that was seen; 0 without a GPU.
    """

    def __init__(self, target: str, index: int) -> None:
        self.most_gib = 0.0
        self._index = index
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._is_wanted = target == "cuda"

    def __enter__(self) -> _GpuMemory:
        if self._is_wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._is_wanted:
            self._thread.join()

    def _poll(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(self._index)
        while not self._stop.wait(_POLL_S):
            used = pynvml.nvmlDeviceGetMemoryInfo(device).used / _GIB
            self.most_gib = max(self.most_gib, used)


if __name__ == "__main__":
    main()
