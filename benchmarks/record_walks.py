"""Records every state of the walks: kernels with several flaws, each of which a macro mends.

On a machine with a GPU, nvcc, ncu and torch: ``python benchmarks/record_walks.py OUT [WALK ...]``.
For each of the 32 combinations of a walk's macros it writes the time of a call, the metrics that
a report of Nsight Compute gives, and the estimates of its rules. ``replay_memory.py`` reads them.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

WALKS = Path(__file__).parent / "walks"
_CALLS = 20
_REPEATS = 7
_TYPES = {"f32": "float32", "u8": "uint8", "i32": "int32"}


def read_header(source: Path, key: str) -> dict[str, Any]:
    """Return a JSON object of a walk's header."""
    found = re.search(rf"^// {key}: (.*)$", source.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{source} has no line '// {key}: ...'")
    return dict(json.loads(found[1]))


def list_states(source: Path) -> list[tuple[str, ...]]:
    """Return all sets of macros of a walk, the empty one first."""
    names = sorted(read_header(source, "toggles"))
    return [
        chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)
    ]


def build_states(source: Path, folder: Path) -> dict[tuple[str, ...], Path]:
    """Compile every state of a walk."""

    def build(state: tuple[str, ...]) -> Path:
        library = folder / f"{source.stem}-{''.join(name[-1] for name in state) or 'none'}.so"
        words = ["nvcc", "-O3", "-lineinfo", "-arch=native", "-shared", "-Xcompiler", "-fPIC"]
        words += [f"-D{name}" for name in state]
        subprocess.run([*words, "-o", library, source], check=True, capture_output=True)
        return library

    states = list_states(source)
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(states, pool.map(build, states), strict=True))


def make_buffers(source: Path) -> tuple[list[Any], Any, Any]:
    """Return the tensors of a walk, and the arguments of its launcher."""
    import torch

    spec = read_header(source, "walk")
    sizes = spec["sizes"]
    tensors = []
    torch.manual_seed(1)
    for words in spec["buffers"].values():
        kind, _, count = words.partition(" ")
        number = 1
        for factor in count.split("*"):
            number *= int(factor)
        dtype = getattr(torch, _TYPES[kind])
        if kind == "f32":
            tensors.append(torch.rand(number, device="cuda", dtype=dtype))
        else:
            limit = 256 if kind == "u8" else sizes[0]
            tensors.append(torch.randint(0, limit, (number,), device="cuda", dtype=dtype))
    pointers = (ctypes.c_void_p * len(tensors))(*(one.data_ptr() for one in tensors))
    return tensors, pointers, (ctypes.c_int * len(sizes))(*sizes)


def time_states(source: Path, built: dict[tuple[str, ...], Path]) -> dict[tuple[str, ...], float]:
    """Return the median time of a call in microseconds; the states are timed in turn."""
    import torch

    _, pointers, sizes = make_buffers(source)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    runs = {state: ctypes.CDLL(str(library)).run for state, library in built.items()}
    samples: dict[tuple[str, ...], list[float]] = {state: [] for state in runs}
    for repeat in range(_REPEATS + 1):
        for state, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(_CALLS):
                if run(pointers, sizes, stream):
                    raise SystemExit(f"{source.stem} {state} failed")
            end.record()
            end.synchronize()
            if repeat:
                samples[state].append(begin.elapsed_time(end) * 1000 / _CALLS)
    return {state: median(found) for state, found in samples.items()}


def profile_states(source: Path, built: dict[tuple[str, ...], Path], folder: Path) -> list[Any]:
    """Return the launch of each state in one report, in the order of the states."""
    from kernelkb.actions.project.rules_cache import load_compiled_rules
    from kernelkb.profiles.launch import list_raw_names
    from kernelkb.profiles.report import read_report

    report = folder / f"{source.stem}.ncu-rep"
    name = re.search(r"__global__ void (\w+)\(", source.read_text())
    listing = folder / f"{source.stem}.json"
    listing.write_text(json.dumps([str(library) for library in built.values()]))
    words = ["ncu", "--set", "full", "-k", name[1] if name else "", "-f", "-o", str(report)]
    subprocess.run([*words, sys.executable, __file__, "--call", source, listing], check=True)
    return read_report(report, list_raw_names(load_compiled_rules()))


def call_once(source: Path, listing: Path) -> None:
    """Call every library of a walk once, for ncu."""
    import torch

    _tensors, pointers, sizes = make_buffers(source)
    for library in json.loads(listing.read_text()):
        ctypes.CDLL(library).run(pointers, sizes, None)
    torch.cuda.synchronize()


def record(source: Path, folder: Path) -> list[dict[str, Any]]:
    """Return a row for each state of a walk."""
    from kernelkb.profiles.machine_code import measure_built_code

    built = build_states(source, folder)
    times = time_states(source, built)
    launches = profile_states(source, built, folder)
    return [
        {
            "walk": source.stem,
            "state": list(state),
            "toggles": read_header(source, "toggles"),
            "us": round(times[state], 3),
            "device": launch.device,
            "metrics": {
                key: float(f"{value:.5g}")
                for key, value in {**launch.metrics, **measure_built_code([library])}.items()
            },
            "rules": [[rule.rule, rule.says[:160], rule.removes] for rule in launch.rules],
        }
        for (state, library), launch in zip(built.items(), launches, strict=True)
    ]


def main() -> None:
    """Record the walks that are named, or all."""
    if sys.argv[1] == "--call":
        call_once(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    named = sys.argv[2:] or sorted(path.stem for path in WALKS.glob("*.cu"))
    with tempfile.TemporaryDirectory() as folder, Path(sys.argv[1]).open("w") as out:
        for name in named:
            out.writelines(
                json.dumps(row) + "\n" for row in record(WALKS / f"{name}.cu", Path(folder))
            )
            out.flush()


if __name__ == "__main__":
    main()
