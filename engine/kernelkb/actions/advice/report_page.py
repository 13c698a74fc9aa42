"""Makes the HTML page of a report: collects what it shows, and writes the file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.actions.advice.recommend_report import MAX_KERNELS, answer_report
from kernelkb.actions.project.hardware import find_reported_gpu
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.source_lines import choose_place
from kernelkb.errors import BadValueError
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.profiles.report import refuse_report_text
from kernelkb.render.html.charts import RooflinePoint
from kernelkb.render.html.report_page import (
    KernelCode,
    KernelSection,
    PageSource,
    ReportContents,
    SassLine,
    SourceRow,
    format_report_page,
)
from kernelkb.safety.files import replace_file
from kernelkb.safety.storage import describe_write_cure

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.answers.recommendation import KernelAnswer
    from kernelkb.sass.counters import SourceCounters

_FOLDER_CURE = "name a file in a folder that exists"
_TABLE_ONLY = "a CSV page holds no code; give the .ncu-rep file"
_NOT_WAITING = ("stall:selected", "stall:not_selected")
_MAX_UNCOUNTED = 0.05
"""A tensor or half-precision pipe above this share does work that ``flop_rate`` does not count."""


class WrittenPage(NamedTuple):
    """A page that was written."""

    kernels: int
    bytes: int


def write_report_page(
    report: str, target: Path, *, kernel_pattern: str | None = None, gpu: str | None = None
) -> WrittenPage:
    """Write the page of a report to a file, which is replaced as a whole.

    Args:
        report: A ``.ncu-rep`` file or a CSV page; CSV pages hold no code.
        target: The file to write; its folder must exist.
        kernel_pattern: A regular expression; kernels whose name does not match are left out.
        gpu: Any name of the GPU; by default the one in the report.

    Raises:
        KbError: The file is not a report, or no kernel matches.
        BadValueError: An invalid regular expression, or the page cannot be written.
    """
    refuse_report_text(report)
    if target.exists() and Path(report).exists() and target.samefile(report):
        raise BadValueError(f"{target} is the report itself; name another file for the page")
    if not target.absolute().parent.is_dir():
        raise BadValueError(f"cannot write {target}: no such folder; {_FOLDER_CURE}")
    contents = collect_contents(report, kernel_pattern=kernel_pattern, gpu=gpu)
    page = format_report_page(contents).encode()
    try:
        replace_file(target, page)
    except OSError as error:
        cure = describe_write_cure(error, _FOLDER_CURE)
        raise BadValueError(f"cannot write {target}: {error.strerror}; {cure}") from error
    return WrittenPage(len(contents.sections), len(page))


def collect_contents(
    report: str, *, kernel_pattern: str | None = None, gpu: str | None = None
) -> ReportContents:
    """Return what the page of a report shows. See ``write_report_page`` for the arguments."""
    program = load_compiled_rules()
    result, launches, chosen, counters = answer_report(
        report, kernel_pattern=kernel_pattern, gpu=gpu, max_with_lines=MAX_KERNELS
    )
    codes = [one if isinstance(one, str) else build_code(one) for one in counters]
    stamp = result["knowledge"]
    return ReportContents(
        report=Path(report).name,
        devices=tuple(dict.fromkeys(one.device for one in launches if one.device)),
        launch_count=len(launches),
        kernel_count=len({(one.kernel, one.shape) for one in launches}),
        total_us=sum(one.metrics.get("profiled_us", 0.0) for one in launches),
        sections=tuple(
            _build_section(program, launches, at, answer, code)
            for at, answer, code in zip(
                chosen, result["kernels"], codes or [_TABLE_ONLY] * len(chosen), strict=True
            )
        ),
        knowledge=f"{stamp['version']}, {stamp['sha256'][:12]}",
    )


def _build_section(
    program: CompiledRules,
    launches: Sequence[ProfiledLaunch],
    at: int,
    answer: KernelAnswer,
    code: KernelCode | str,
) -> KernelSection:
    launch = launches[at]
    same = [x for x in launches if (x.kernel, x.shape) == (launch.kernel, launch.shape)]
    return KernelSection(
        answer=answer,
        launch_count=len(same),
        shape=launch.shape,
        roofline=_locate_on_roofline(program, launch, answer),
        code=None if isinstance(code, str) else code,
        missing=code if isinstance(code, str) else "",
    )


def _locate_on_roofline(
    program: CompiledRules, launch: ProfiledLaunch, answer: KernelAnswer
) -> RooflinePoint | None:
    """Return where a kernel stands; None where a number is missing, or not all work is counted."""
    rules = find_reported_gpu(program, launch).rules
    known = complete_metrics(rules, launch.metrics, answer["device"])
    uncounted = max(known.get(f"{name}_utilization", 0.0) for name in ("tensor", "fp16"))
    if uncounted > _MAX_UNCOUNTED:
        return None
    is_double = known.get("fp64_flop_share", 0.0) > 0.5
    peaks = answer["peaks"]
    reached = peaks["dram"] if peaks else known.get("device.achievable_dram_share", 0.0)
    flops, moved, us, bandwidth, peak = (
        known.get(name, 0.0)
        for name in (
            "executed_flop_count", "dram_bytes", "profiled_us", "device.dram_gbps",
            "device.fp64_tflops" if is_double else "device.fp32_tflops",
        )
    )  # fmt: skip
    if not all(isfinite(one) and one > 0 for one in (flops, moved, us, bandwidth, peak, reached)):
        return None
    return RooflinePoint(
        intensity=flops / moved,
        gflops=flops / us / 1e3,
        peak_gflops=peak * 1e3,
        peak="FP64" if is_double else "FP32",
        bandwidth_gbps=bandwidth * reached,
    )


def build_code(counters: SourceCounters) -> KernelCode:
    """Return the code of a kernel by line, with the share of samples of each line."""
    counts = counters.get_counts("samples")
    counted = "samples" if counts else "executed instructions"
    outside = counters.outside if counts else 0.0
    counts = counts or counters.get_counts("executed")
    total = sum(counts.values()) + outside or 1.0
    stalls = {name: counters.get_counts(name) for name in counters.list_stalls(_NOT_WAITING)}
    groups: dict[tuple[str, int] | None, list[int]] = defaultdict(list)
    for at, places in enumerate(counters.function.places):
        place = choose_place(places)
        groups[(place.file, place.line) if place else None].append(at)
    rows: dict[str, dict[int, SourceRow]] = defaultdict(dict)
    for key, indices in groups.items():
        if key is not None:
            rows[key[0]][key[1]] = _build_row(counters, indices, counts, stalls, total)
    files = [PageSource(path, _split_lines(counters, path), found) for path, found in rows.items()]
    return KernelCode(
        counted=counted,
        files=tuple(sorted(files, key=lambda one: (-one.share, one.path))),
        unplaced=_build_row(counters, groups.get(None, []), counts, stalls, total),
        outside=outside / total,
        instruction_count=len(counters.function.instructions),
    )


def _split_lines(counters: SourceCounters, path: str) -> tuple[str, ...]:
    """Return the lines of a file as a compiler counts them: a form feed ends none."""
    text = counters.sources.get(path, "")
    return tuple(text.replace("\r\n", "\n").removesuffix("\n").split("\n")) if text else ()


def _build_row(
    counters: SourceCounters,
    indices: Sequence[int],
    counts: Mapping[int, float],
    stalls: Mapping[str, Mapping[int, float]],
    total: float,
) -> SourceRow:
    instructions = counters.function.instructions
    lines = [
        SassLine(
            instructions[at].offset,
            instructions[at].text,
            counts.get(at, 0.0) / total,
            _find_largest_stall(stalls, [at]),
        )
        for at in indices
    ]
    share = sum(one.share for one in lines)
    return SourceRow(share, _find_largest_stall(stalls, indices), tuple(lines))


def _find_largest_stall(
    stalls: Mapping[str, Mapping[int, float]], indices: Sequence[int]
) -> str | None:
    sums = {name: sum(found.get(at, 0.0) for at in indices) for name, found in stalls.items()}
    largest = max(sums, key=lambda name: sums[name], default=None)
    return largest.partition(":")[2] if largest is not None and sums[largest] else None
