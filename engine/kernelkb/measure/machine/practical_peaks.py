"""Measures what a GPU reaches in practice: shares of its peaks, latencies, rates of atomics.

``practical_peaks.cu`` is compiled and run by itself for the times, and under Nsight Compute for the
counters. Those of ``torch_info.py`` are torch's copies and GEMMs: a floor for the times of a bench.
These are shares of counters, and so comparable with a profile.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.measure.machine.cached_facts import keep_practical_peaks
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.process.subprocesses import run_supervised, scratch_folder
from kernelkb.model.records.measurement import Machine, PracticalPeaks
from kernelkb.profiles.launch import ProfiledLaunch, RawName
from kernelkb.profiles.ncu_csv import read_raw_page

_SOURCE = Path(__file__).with_suffix(".cu")
_COMPILE_TIMEOUT_S = 120.0
_RUN_TIMEOUT_S = 120.0
_KERNELS = ("peaks_empty", "peaks_copy", "peaks_read_l2")
_WARM_UP_LAUNCHES = len(_KERNELS)

DRAM_METRICS = ("dram_utilization",)
"""The busiest of these under ``peaks_copy`` is the practical share of the memory peak."""
L2_METRICS = (
    "l2_sector_utilization",
    "l2_data_utilization",
    "l2_output_utilization",
    "l2_tag_utilization",
    "l2_input_utilization",
    "l1_request_utilization",
)
"""The busiest of these under ``peaks_read_l2`` is the practical share of the L2 peak."""
EMPTY_METRICS = ("profiled_us",)


def measure_practical_peaks(machine: Machine, raw_names: Sequence[RawName]) -> PracticalPeaks:
    """Measure this machine's GPU, and keep the result for later answers.

    Args:
        machine: From ``inspect_machine``, with a GPU.
        raw_names: Of at least ``DRAM_METRICS``, ``L2_METRICS`` and ``EMPTY_METRICS``.

    Raises:
        EnvironmentGapError: There is no GPU.
        KbError: The program could not be compiled or run.
    """
    if machine.cc is None:
        raise EnvironmentGapError("there is no GPU to measure", "run it on a machine with one")
    with scratch_folder() as folder:
        program = _compile(machine, folder)
        times = _parse_times(_run([str(program)], folder / "times.log", _RUN_TIMEOUT_S))
        launches, reason = _count(program, folder, raw_names)
    driver = query_driver()
    peaks = PracticalPeaks.model_validate({
        "title": machine.title,
        "device": machine.device,
        "driver": driver.version if driver else "",
        "measured_at": datetime.now(UTC),
        **times,
        **read_shares(launches),
        "problem": reason,
    })  # fmt: skip
    keep_practical_peaks(peaks.model_dump(mode="json"))
    return peaks


def read_shares(launches: Sequence[ProfiledLaunch]) -> dict[str, float]:
    """Return the fields of ``PracticalPeaks`` that counters tell; one launch of each kernel."""
    metrics = {launch.kernel.partition("(")[0]: launch.metrics for launch in launches}
    sources = {
        "dram_share": ("peaks_copy", DRAM_METRICS),
        "l2_share": ("peaks_read_l2", L2_METRICS),
        "profiled_empty_us": ("peaks_empty", EMPTY_METRICS),
    }
    found = {
        field: max(metrics[kernel].get(name, 0.0) for name in names)
        for field, (kernel, names) in sources.items()
        if kernel in metrics
    }
    return {field: value for field, value in found.items() if value > 0}


def _compile(machine: Machine, folder: Path) -> Path:
    program = folder / _SOURCE.stem
    cc = str(machine.cc).replace(".", "")
    command = [machine.compiler, "-O3", "-std=c++17", f"-arch=sm_{cc}", "-o", str(program)]
    _run([*command, str(_SOURCE)], folder / "compile.log", _COMPILE_TIMEOUT_S)
    return program


def _run(argv: Sequence[str], log: Path, timeout_s: float) -> str:
    """Run a program and return the last line that it printed; empty without one.

    Raises:
        KbError: It failed or took too long.
    """
    done = run_supervised(argv, log=log, timeout_s=timeout_s)
    lines = done.output.strip().splitlines() or [""]
    if done.timed_out or done.returncode != 0:
        what = f"took longer than {timeout_s:.0f} s" if done.timed_out else lines[-1] or "failed"
        raise KbError(f"{Path(argv[0]).name}: {what}")
    return lines[-1]


def _parse_times(line: str) -> dict[str, Any]:
    """Return the fields that the program printed.

    Raises:
        KbError: It printed something else.
    """
    try:
        return dict(json.loads(line))
    except ValueError as error:
        raise KbError(f"the microbenchmark printed no JSON object: {line!r}") from error


def _count(
    program: Path, folder: Path, raw_names: Sequence[RawName]
) -> tuple[list[ProfiledLaunch], str]:
    """Return one launch of each kernel under Nsight Compute, or why there is none."""
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return [], "ncu was not found"
    wanted = {*DRAM_METRICS, *L2_METRICS, *EMPTY_METRICS}
    chosen = [raw for raw in raw_names if raw.metric in wanted]
    counters = ",".join(dict.fromkeys(name for raw in chosen for name in raw.names))
    page = folder / "counters.csv"
    command = [
        *(ncu, "--metrics", counters, "--kernel-name", f"regex:^({'|'.join(_KERNELS)})$"),
        *("--launch-skip", str(_WARM_UP_LAUNCHES), "--clock-control", "none"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(page)),
        *(str(program), "counters"),
    ]
    try:
        _run(command, folder / "ncu.log", _RUN_TIMEOUT_S)
        text = page.read_text(encoding="utf-8", errors="replace")
        return read_raw_page(text, chosen), ""
    except (KbError, OSError) as error:
        return [], str(error)
