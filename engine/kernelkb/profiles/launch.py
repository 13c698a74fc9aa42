"""Defines a profiled launch, which every report reader returns, and converts raw values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

from kernelkb.decide.kernel_phases import Samples
from kernelkb.decide.rules import CompiledRules

_AUTOTUNER = re.compile(r"stream_executor::.*(?:DelayKernel|RedzoneAllocator|xla_\w*comparison)")
"""With which XLA times and checks the code that it chooses from."""
_TRIAL_LAUNCHES = 8
"""Chosen: from one of them to the next, what is tried; a program has more."""
_COMPILE_GAP_US = 1000.0
"""Chosen: far above a launch, and below any compilation."""
_UNIT_SCALES = {  # factor to ns or bytes; without --print-units base, ncu prints scaled units
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6,
    "second": 1e9, "s": 1e9, "minute": 6e10, "min": 6e10, "hour": 3.6e12,
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip


_PERCENT = 0.01
"""Scale of metrics that ncu prints in percent."""
_MAX_RULE_CHARS = 2000
_TRANSFERS_PER_CLOCK = 2
"""Of the memory clock that the driver reports, for DDR, GDDR and HBM alike."""
GPU_ATTRIBUTE = "device__attribute_"
"""How the driver's attributes of the GPU begin in reports."""
_INSTANCE = re.compile(r"(?<![\w.])([\w.]+): *(\d[\d,]*(?:\.\d+)?)")
_GPU = re.compile(r'"deviceProperties"\s*:\s*\[\s*(\{[^{}]*\})')
_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::")
_OPERATOR = re.compile(r"operator\s*(<<|>>|<=>|<=|>=|->|<|>|\(\))")
"""Operators whose names hold brackets."""


class RawName(NamedTuple):
    """The raw names of one metric in a report, and the conversion of its values."""

    metric: str
    names: tuple[str, ...]
    """Raw names, the preferred one first."""
    scale: float
    titles: tuple[str, ...] = ()
    """``section/title`` on the details page."""
    zero_is_value: bool = True
    """Whether a raw 0 is a value; if not, it is an average over no samples, and so unknown."""
    rule_patterns: tuple[str, ...] = ()
    """For the messages of rules; group ``number`` is the value."""

    def fits_unit(self, unit: str) -> bool:
        """Return whether values of a unit can be this metric's: ``%`` and bytes share titles."""
        return not unit or (unit == "%") == (self.scale == _PERCENT)

    def to_metric_unit(self, raw: float | None, unit: str) -> float | None:
        """Return a raw value in the metric's unit; None if it is unknown."""
        if raw is None or (raw == 0 and not self.zero_is_value):
            return None
        return raw * self.scale * base_scale(unit)


def split_instance(name: str) -> tuple[str, str]:
    """Return the counter of a raw name, and the label of its instance; empty without.

    Args:
        name: Such as ``sass__inst_executed_per_opcode[FCHK]``.
    """
    counter, _, rest = name.partition("[")
    return counter, rest.removesuffix("]")


class NcuRule(NamedTuple):
    """The result of one of Nsight Compute's own rules for a launch."""

    rule: str
    says: str
    """The rule's message."""
    removes: float | None
    """Estimated share of the scope's time that a fix would remove; None without an estimate."""
    scope: Literal["kernel", "local"] | None
    """kernel: the whole kernel. local: one unit of it; ncu does not report that unit's share of the
    kernel's time. None without an estimate."""


class ProfiledLaunch(NamedTuple):
    """One launch of one kernel in a report."""

    kernel: str
    metrics: dict[str, float]
    """Values by metric id, in the metric's unit; metrics that the report lacks are absent."""
    device: str = ""
    """Name of the GPU as the driver reports it; empty if the report has none."""
    shape: tuple[str, str] = ("", "")
    """Grid and block, as the report writes them."""
    rules: tuple[NcuRule, ...] = ()
    cc: str = ""
    """Compute capability of the GPU, such as ``8.6``; empty if the report has none."""
    gpu: Mapping[str, float] = MappingProxyType({})
    """What the report says of its GPU, by field of ``model.entries.quantities.Device``."""
    launch_count: int = 1
    """Launches of which these are the means, as ``ncu --print-summary`` prints them."""
    says: tuple[str, ...] = ()
    """Where a program's time goes, as sentences; empty for a kernel."""
    hottest: str = ""
    """The kernel that takes most of a program's time, as a profiler's filter takes it."""
    called_by: str = ""
    """The line of Python that launched the kernel; empty where no stack was taken."""
    absent: tuple[str, ...] = ()
    """Counters that were asked for and not measured, as mistyped ones are."""
    samples: Samples | None = None
    """Counters sampled as it ran; None where the report has none."""


class Span(NamedTuple):
    """Something that ran."""

    start: float
    """Microseconds, from any beginning."""
    end: float
    name: str


def find_program(launches: Sequence[Span], compiles: Sequence[tuple[float, float]] = ()) -> slice:
    """Return which launches are a program's own.

    Compilers run code to choose from, and leave the GPU idle, now and then and last for what a
    program ends with: of the stretches between, the one that takes the most time is the program.

    Args:
        launches: In their order.
        compiles: When the host compiled, as far as a trace shows it; none overlap.
    """
    edges = [(at, at + 1) for at, one in enumerate(launches) if _AUTOTUNER.search(one.name)]
    ends = accumulate((span.end for span in launches), max)
    for at, (end, span) in enumerate(zip(ends, launches[1:], strict=False), 1):
        if compiles and span.start - end > _COMPILE_GAP_US:
            compiled = sum(max(0.0, min(span.start, b) - max(end, a)) for a, b in compiles)
            edges += [(at, at)] * (compiled > (span.start - end) / 2)
    times = [0.0, *accumulate(span.end - span.start for span in launches)]
    all_edges = [(0, 0), *sorted(edges), (len(launches),) * 2]
    between = [(left[1], right[0]) for left, right in pairwise(all_edges)]
    first, end_at = max(between, key=lambda one: times[one[1]] - times[one[0]])
    return slice(first, end_at) if first < end_at else slice(0, len(launches))


def leave_out_trials(launches: Sequence[Span]) -> list[Span]:
    """Return launches without what a compiler ran to choose its code, in their order."""
    tuned = [at for at, one in enumerate(launches) if _AUTOTUNER.search(one.name)]
    near = (range(a, b) for a, b in pairwise(tuned) if b - a <= _TRIAL_LAUNCHES)
    trials = {*tuned, *chain.from_iterable(near)}
    return [one for at, one in enumerate(launches) if at not in trials]


def simplify_kernel_name(kernel: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters.

    Args:
        kernel: Such as ``void <unnamed>::scale<float, (int)4>(const float *)``, here ``scale``.
    """
    text = _OPERATOR.sub("operator", kernel)
    for noise in _ANONYMOUS:
        text = text.replace(noise, "")
    depth, kept = 0, []
    for character in text:
        depth += character == "<"
        if not depth:
            if character == "(":
                break
            kept.append(character)
        depth -= character == ">" and depth > 0
    words = "".join(kept).split()
    return words[-1] if words else kernel


def name_function(kernel: str) -> str:
    """Return the name by which a profiler's filter finds a kernel: that of its function alone."""
    return simplify_kernel_name(kernel).rpartition("::")[2]


def parse_gpu_attributes(read: Callable[[str], float | None]) -> tuple[str, dict[str, float]]:
    """Return a GPU's compute capability, empty where it is unknown, and what is known of it.

    Args:
        read: Returns the value of one of the driver's attributes; None where a report lacks it.
    """
    major, minor = (read(f"compute_capability_{part}") for part in ("major", "minor"))
    clock, memory, width, l2, count = (
        read(name)
        for name in (
            "clock_rate",
            "memory_clock_rate",
            "global_memory_bus_width",
            "l2_cache_size",
            "multiprocessor_count",
        )
    )
    facts = {
        "sm_count": count,
        "sm_clock_mhz": clock and clock / 1e3,
        "dram_gbps": memory and width and memory * _TRANSFERS_PER_CLOCK * width / 8 / 1e6,
        "l2_mb": l2 and l2 / 2**20,
    }
    cc = "" if major is None or minor is None else f"{major:.0f}.{minor:.0f}"
    return cc, {name: value for name, value in facts.items() if value}


def parse_gpu_header(header: str) -> tuple[str, str, dict[str, float]]:
    """Return the same as ``parse_gpu_row`` of what a trace of torch.profiler begins with."""
    match = _GPU.search(header)
    try:
        return parse_gpu_row(json.loads(match[1]) if match else {})
    except ValueError:
        return parse_gpu_row({})


def parse_gpu_row(row: Mapping[str, object]) -> tuple[str, str, dict[str, float]]:
    """Return a GPU's name and compute capability, empty where unknown, and what is known of it.

    Args:
        row: As a trace of torch.profiler or an export of nsys describes it.
    """
    known = {name: float(one) for name, one in row.items() if isinstance(one, int | float)}
    facts = {
        "sm_count": known.get("numSms", known.get("smCount", 0.0)),
        "sm_clock_mhz": known.get("clockRate", 0.0) / 1e6,
        "dram_gbps": known.get("memoryBandwidth", 0.0) / 1e9,
        "l2_mb": known.get("l2CacheSize", 0.0) / 2**20,
    }
    major, minor = (known.get(f"compute{part}") for part in ("Major", "Minor"))
    cc = "" if major is None or minor is None else f"{major:.0f}.{minor:.0f}"
    return str(row.get("name") or ""), cc, {name: one for name, one in facts.items() if one}


def list_raw_names(rules: CompiledRules) -> list[RawName]:
    """Return the raw names of every metric that a report can contain."""
    return [
        RawName(
            metric,
            tuple(row["names"]),
            row["scale"],
            tuple(row["titles"]),
            row["zero_is_value"],
            tuple(row["rule_patterns"]),
        )
        for metric, row in rules["raw_names"].items()
    ]


def read_rule_numbers(rules: Sequence[NcuRule], wanted: Sequence[RawName]) -> dict[str, float]:
    """Return the metrics whose numbers the messages of rules hold, which are rounded.

    Args:
        rules: Of one launch.
        wanted: Metrics to look for, with their patterns.
    """
    said = [" ".join(rule.says.split())[:_MAX_RULE_CHARS] for rule in rules]
    found: dict[str, float] = {}
    for one in wanted:
        for pattern in one.rule_patterns:
            match = next((m for text in said if (m := re.search(pattern, text))), None)
            value = one.to_metric_unit(parse_cell_number(match["number"]), "") if match else None
            if value is not None:
                found.setdefault(one.metric, value)
    return found


def base_scale(unit: str) -> float:
    """Return the factor from a unit of ncu, such as ``Kbyte`` or ``us``, to its base unit."""
    return _UNIT_SCALES.get(unit.partition("/")[0], 1.0)


def parse_cell_number(cell: str, label: str = "") -> float | None:
    """Return the number in a cell; None for ``n/a``, ``no data``, an empty cell or NaN.

    Args:
        cell: A number, perhaps with those of its instances: ``1,024 (FADD: 1,000; FMUL: 24)``.
        label: The instance to take; 0 if there are others only, None if there are none.
    """
    total, _, instances = cell.partition(" (")
    if label:
        found = dict(_INSTANCE.findall(instances))
        total = found.get(label, "0" if found else "")
    try:
        value = float(total.replace(",", ""))
    except ValueError:
        return None
    return value if value - value == 0 else None


def parse_rule_estimate(
    share: float | None, scope: str
) -> tuple[float | None, Literal["kernel", "local"] | None]:
    """Return a rule's estimate, in percent of time removed, as a share, and its scope.

    Both are None without a valid estimate.
    """
    if share is None or not 0 <= share < 100:
        return None, None
    return share / 100, "kernel" if scope == "global" else "local"
