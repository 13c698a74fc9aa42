"""Files of an observed program, and its calls made once more from a drafted source."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.measure.process.scratch_folders import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.scaffold.observed.observed_callee import Places
from kernelkb.scaffold.observed.observed_code import ENTRY
from kernelkb.scaffold.observed.observed_shapes import ObservedPlan
from kernelkb.scaffold.observed.recorded_values import join_recorded_values

_TIMEOUT_S = 120.0


class Replayed(NamedTuple):
    """Where calls are made again, before anything is written."""

    folder: Path
    """With the recorded values."""
    kernel_folder: Path


def read_source(function: dict[str, Any]) -> str:
    """Return the text of the file that defines a function; empty where there is none to read."""
    file = str(function["source_file"] or "")
    if function["kind"] == "torch-operation":
        file = file.rpartition(":")[0]
    if function["kind"] == "extension" or function["is_library"] or not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def find_places(function: dict[str, Any], kernel_folder: Path, program: str) -> Places:
    """Return the paths from the kernel's folder of what can be loaded without running the program.

    Those are the program's extension libraries, the function's own file if it is no script, and
    the modules beside it.
    """
    files = list(function["libraries"])
    own = function["source_file"]
    if own and Path(own).is_file() and Path(own).resolve() != Path(program).resolve():
        files.append(own)
    found = {file: _make_relative(Path(file), kernel_folder) for file in files}
    if not own or not Path(own).is_file() or function["is_library"]:
        return Places(found)
    root = Path(own).resolve().parents[function["module"].count(".")]
    modules = [p for p in root.iterdir() if p.suffix in (".py", ".so") or p.is_dir()]
    return Places(
        found,
        _make_relative(root, kernel_folder),
        frozenset(path.name.partition(".")[0] for path in modules),
        frozenset(path.name.partition(".")[0] for path in modules if path.suffix == ".so"),
    )


def _make_relative(path: Path, kernel_folder: Path) -> str:
    return Path(os.path.relpath(path, kernel_folder)).as_posix()


def replay_calls(replayed: Replayed, text: str, plan: ObservedPlan) -> Sequence[str]:
    """Return for each recorded call why a source does not give its outputs; empty: it does.

    Args:
        replayed: Where the values are.
        text: A Python file with the function ``observed_call``.
        plan: The calls; those without recorded values are left out.
    """
    recorded = [call for call in plan.calls if call["file"]]
    if not recorded:
        return []
    file = replayed.folder / "replayed.py"
    file.write_text(_resolve_paths(text, replayed.kernel_folder), encoding="utf-8")
    numbers = [at for at, number in enumerate(plan.numbers) if not number.is_baked]
    with scratch_folder() as scratch:
        run = run_job(
            {
                "mode": "replay",
                "file": str(file),
                "entry": ENTRY,
                "target": "cuda" if plan.target == "cuda" else "cpu",
                "values": [str(replayed.folder / call["file"]) for call in recorded],
                "inputs": list(plan.input_places),
                "numbers": [[call["numbers"][at]["value"] for at in numbers] for call in recorded],
            },
            scratch,
            timeout_s=_TIMEOUT_S,
        )
    if run.result is None:
        last = (run.process.output.strip().splitlines() or ["no output"])[-1]
        return [f"it does not run by itself: {last}"] * len(recorded)
    return run.result["faults"]


def _resolve_paths(text: str, kernel_folder: Path) -> str:
    """Write out the paths from a kernel's folder, which does not exist yet."""

    def resolve(match: re.Match[str]) -> str:
        return f"Path({os.path.normpath(kernel_folder / json.loads(match[1]))!r})"

    return re.sub(r'Path\(__file__\)\.parent / ("[^"\n]*")', resolve, text)


def join_values(folder: Path, plan: ObservedPlan) -> bytes:
    """Return the safetensors file with the inputs and outputs of each workload.

    Args:
        folder: With a file for each call.
        plan: Of calls that were all recorded.
    """
    files = {
        workload: (folder / call["file"]).read_bytes()
        for workload, call in zip(plan.workloads, plan.calls, strict=True)
    }
    inputs = {at: plan.tensors[at].name for at in plan.input_places}
    return join_recorded_values(files, inputs, [array.name for array in plan.outputs])
