"""Tables of the quick reference: causes, sizes by architecture, GPUs, messages, commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple, get_args

from kernelkb.model.entries.bottleneck import Group
from kernelkb.model.entries.device import Architecture, Device
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.symptom import Symptom
from kernelkb.render.documents.conditions import abbreviate_condition

COMMANDS = (
    ("kb env", "what this machine can build and measure"),
    ("kb triage row_softmax", "build, check, time, profile, advise"),
    ("kb bench row_softmax --variant vectorized", "check and time against rivals"),
    ("kb recommend --speedup 0.3 --occupancy 0.4", "the next change or measurement"),
    ("kb recommend --profile report.ncu-rep", "the same from a report"),
    ("kb occupancy --gpu h100-sxm --threads 256 --registers 96", "blocks per SM and limits"),
    ("kb roofline --gpu b200 --bytes 1GiB --us 400", "the shortest possible time"),
    ("kb occupancy --arch 10.3 --sm-count 148 --threads 256 --registers 64", "an unlisted GPU"),
    ("kb diagnose build.log", "name the failure in a log"),
    ("kb search bank conflicts", "find an entry or a command"),
    ("kb show register-spilling", "one entry in full"),
    ("kb tune gemm", "search configurations"),
    ("kb init my_kernels.cu", "set up your own kernel"),
    ("kb compare before.ncu-rep after.ncu-rep", "what a change did"),
)  # fmt: skip
"""Commands as they can be typed, and what each gives. A test runs or parses every one."""

_MAX_MESSAGE = 46
"""Characters of a message on the sheet."""
_FIXES_SHOWN = 2


class CauseRow(NamedTuple):
    """One bottleneck: what the numbers say, what it is, what to do first."""

    group: str
    when: str
    cause: str
    fixes: tuple[str, ...]


class SizeRow(NamedTuple):
    """One limit, rate or latency, with its value on every architecture."""

    label: str
    values: tuple[str, ...]


def list_cause_rows(knowledge: Knowledge, target: str) -> Iterator[CauseRow]:
    """Yield the bottlenecks of a target in the order of evaluation."""
    limits = {t.id: t.value for t in knowledge.thresholds.thresholds}
    for b in sorted(knowledge.bottlenecks, key=lambda b: get_args(Group).index(b.group)):
        if b.target == target:
            when = abbreviate_condition(b.when, limits)
            yield CauseRow(b.group, when, b.id, b.fixes[:_FIXES_SHOWN])


def list_size_rows(knowledge: Knowledge) -> list[SizeRow]:
    """Return the sizes, rates and latencies of the architectures; a dot where none is known."""
    common = knowledge.devices.common
    if common is None:  # only in a project's own file
        return []
    rates = {"7.5": common.smem_bytes_per_clk_sm_cc75}
    columns: tuple[tuple[str, Callable[[Architecture], object]], ...] = (
        ("threads per SM", lambda a: a.max_threads_sm),
        ("blocks per SM", lambda a: a.max_blocks_sm),
        ("32-bit registers per SM", lambda _: f"{common.regs_sm // 1024}K"),
        ("L1 + shared memory, KiB", lambda a: a.l1_kb),
        ("shared memory per SM, KiB", lambda a: a.smem_sm // 1024),
        ("… per block, by opt-in", lambda a: a.smem_optin_block // 1024),
        ("… bytes per clock", lambda a: rates.get(a.cc, common.smem_bytes_per_clk_sm)),
        ("blocks in a cluster, most", _describe_cluster),
        ("tensor memory per SM, KiB", lambda a: a.tmem_kb or "–"),
        ("fp32 lanes", lambda a: a.fp32_lanes),
        ("fp64 lanes", lambda a: a.fp64_lanes),
        ("exp, rsqrt… lanes", lambda a: a.xu_lanes),
        ("fp16 tensor FMA per clock", lambda a: a.tc_fp16_fma),
        ("shared memory, cycles", lambda a: a.latency and f"{a.latency.shared:.0f}"),
        ("L1 hit, cycles", lambda a: a.latency and f"{a.latency.l1:.0f}"),
        ("L2 hit, cycles", lambda a: a.latency and f"{a.latency.l2:.0f}"),
        ("DRAM, cycles", lambda a: a.latency and f"{a.latency.dram:.0f}"),
    )
    archs = knowledge.devices.architectures
    return [
        SizeRow(label, tuple("·" if get(a) is None else str(get(a)) for a in archs))
        for label, get in columns
    ]


def list_matrix_shapes(knowledge: Knowledge) -> dict[str, list[str]]:
    """Return the architectures of each widest matrix instruction, by instruction."""
    shapes: dict[str, list[str]] = {}
    for arch in knowledge.devices.architectures:
        if arch.mma:
            shapes.setdefault(arch.mma, []).append(arch.cc)
    return shapes


DEVICE_COLUMNS = (
    "GPU", "cc", "SMs", "GHz", "L2 MB", "GB/s", "per SM", "fp64", "fp32", "tf32", "fp16", "fp8",
    "fp4", "ridge",
)  # fmt: skip
"""TFLOPS are dense; the ridge is that of fp16, in operations per byte."""


def list_device_rows(knowledge: Knowledge) -> Iterator[tuple[str, ...]]:
    """Yield the cells of ``DEVICE_COLUMNS`` of each GPU, by architecture and bandwidth."""

    def order(device: Device) -> tuple[float, float]:
        return float(device.cc), device.dram_gbps

    for d in sorted(knowledge.devices.devices, key=order):
        fp16 = d.fp16_tensor_tflops
        peaks = (
            d.fp64_tflops, d.fp32_tflops, d.tf32_tensor_tflops, fp16, d.fp8_tensor_tflops,
            d.fp4_tensor_tflops,
        )  # fmt: skip
        yield (
            d.id,
            d.cc,
            str(d.sm_count),
            f"{d.sm_clock_mhz / 1e3:.2f}" if d.sm_clock_mhz else "·",
            _format_number(d.l2_mb),
            _format_number(d.dram_gbps),
            f"{d.dram_gbps / d.sm_count:.0f}",
            *(_format_number(peak) for peak in peaks),
            f"{fp16 * 1e3 / d.dram_gbps:.0f}" if fp16 else "·",
        )


def list_message_rows(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Yield what a log says and which symptom it is: the first of each family, then the second."""
    for row in zip_longest(*(family.symptoms for family in knowledge.symptoms)):
        yield from ((_extract_message(symptom), symptom.id) for symptom in row if symptom)


def _extract_message(symptom: Symptom) -> str:
    """Return the part of the example that the symptom's pattern finds, shortened."""
    found = next(
        (m for p in symptom.log_patterns if (m := re.search(p, symptom.example, re.MULTILINE))),
        None,
    )
    text = " ".join((found[0] if found else symptom.example).split())
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 1]}…"


def _describe_cluster(arch: Architecture) -> str:
    if not arch.cluster_blocks:
        return "–"
    more = arch.cluster_blocks_optin
    return f"{arch.cluster_blocks} ({more})" if more else str(arch.cluster_blocks)


def _format_number(value: float | None) -> str:
    if value is None:
        return "·"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
