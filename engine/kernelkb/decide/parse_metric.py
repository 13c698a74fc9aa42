"""Parses what is typed on a command line: a metric's value ("88%", "0.4"), a change of a launch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.units import parse_byte_count, parse_whole_number

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, MetricRow
    from kernelkb.device_math.occupancy import Launch


_MIN_LIKELY_PERCENT = 2.0
"""A share of at least this value was probably typed as a percentage."""

_COUNTER_TOLERANCE = 1.05
"""Largest valid share: a hardware counter can exceed its peak slightly, but not by more."""

OUT_OF_SCOPE = "KernelKB covers NVIDIA GPUs and CPUs: GPUs of AMD, Intel and Apple are out of scope"
"""Said of a GPU by another maker, and in the README."""

_OTHER_MAKER = re.compile(
    r"\b(amd|radeon|instinct|mi\d{2,3}[a-z]?|gfx\d+\w*|rx ?\d{4}|rocm|cdna\d?|rdna\d?"
    r"|intel|arc|gaudi\d?|ponte vecchio|apple|m[1-5] (?:pro|max|ultra))\b"
)

_FAMILY_WORDS = frozenset(("nvidia", "geforce", "rtx", "gtx", "tesla", "quadro", "gpu"))

_TRUTHS = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}

HEADLINE_FLAGS = ("speedup", "bandwidth", "occupancy", "kernel-us")
"""The headline flags, without their dashes."""

LAUNCH_CHANGES = (
    "threads", "grid", "registers", "static_smem", "dynamic_smem", "cluster", "stages", "unroll",
    "vector",
)  # fmt: skip
"""What ``kb recommend --what-if`` changes."""
_HELP = "recommend --help"
_MEANT = {
    "threads": "block block_size blockdim block_dim ntid warps num_warps",
    "grid": "blocks grid_size griddim grid_dim programs ctas",
    "registers": "regs maxrregcount maxnreg launch_bounds",
    "dynamic_smem": "smem shmem shared shared_memory",
    "stages": "num_stages pipeline buffers",
    "unroll": "ilp loads in_flight",
    "vector": "width vec vec_size lane_bytes bytes",
    "cluster": "ctas_per_cga num_ctas cluster_dim",
}
"""What others call a change: what CUDA, Triton and compilers do."""
_SIZES = ("static_smem", "dynamic_smem")
_RATIOS = ("stages", "unroll", "vector")
_MOST = {"threads": 1024, "registers": 255, "cluster": 16, "stages": 64, "unroll": 1024}
_MOST_GRID = 2**31 - 1
_WIDEST_ACCESS = 32
"""Bytes of a lane; 16 before Blackwell."""


def find_metric_for_flag(rules: CompiledRules, flag: str, target: str) -> str:
    """Return the metric that a headline flag sets; for ``bandwidth`` it depends on the target.

    Raises:
        UnknownNameError: No such flag.
    """
    for name, row in rules["metrics"].items():
        if row["flag"] == flag and target in row["targets"]:
            return name
    raise UnknownNameError("flag", flag, HEADLINE_FLAGS, "recommend --help")


def parse_metric_value(rules: CompiledRules, name: str, text: str | float) -> float:
    """Return the value of a metric in its unit, from text or a number.

    Args:
        rules: The compiled rules, with the metric's unit and range.
        name: Metric id.
        text: A number, or for shares also a percentage such as ``40%``.

    Raises:
        UnknownNameError: No such metric.
        BadValueError: Not a number, not finite, or outside the metric's range.
    """
    row = rules["metrics"].get(name)
    if row is None:
        raise UnknownNameError("metric", name, rules["metrics"], "show", id="metrics")
    value = _parse_number(name, text, row)
    _check_range(name, value, row)
    return value


def _parse_number(name: str, text: str | float, row: MetricRow) -> float:
    word = str(text).strip()
    if row["unit"] == "truth" and isinstance(text, str):
        word = _TRUTHS.get(word.lower(), word)
    percent = word.endswith("%")
    if percent and row["unit"] != "share":
        raise BadValueError(f"{name} is a {row['unit']}, not a share: {word} has no meaning here")
    try:
        value = float(word.rstrip("% "))
    except ValueError:
        raise BadValueError(f"{name} {word!r} is not a number; write {name}=1.5") from None
    if not math.isfinite(value):
        raise BadValueError(f"{name} is {word}: leave it out when it was not measured")
    return value / 100 if percent else value


def _check_range(name: str, value: float, row: MetricRow) -> None:
    low, high = row["low"], row["high"]
    if row["unit"] == "share" and high is not None:
        high = min(high, _COUNTER_TOLERANCE)
    if value >= low and (high is None or value <= high):
        return
    if row["unit"] == "share" and _MIN_LIKELY_PERCENT <= value <= 100:
        cure = f"write {value / 100:.2f} or {value:g}%"
        raise BadValueError(f"{name} is a share from 0 to 1, {value:g} is outside; {cure}")
    span = f"{low:g} to {high:g}" if high is not None else f"at least {low:g}"
    raise BadValueError(f"{name} is {value:g}, outside what it can be ({span}); measure it again")


def resolve_device(rules: CompiledRules, name: str) -> str:
    """Return the id of a GPU, given its id, its name in the driver, or an alias.

    Raises:
        UnknownNameError: No such GPU.
        BadValueError: A GPU by another maker than NVIDIA.
    """
    found = find_device(rules["device_names"], name)
    if found is None and _OTHER_MAKER.search(name.lower().replace("-", " ")):
        raise BadValueError(f"{name!r} is not an NVIDIA GPU; {OUT_OF_SCOPE}")
    if found is None:
        raise UnknownNameError("GPU", name.lower(), rules["device_names"], "show", id="devices")
    return found


def find_device(names: Mapping[str, str], name: str) -> str | None:
    """Return the id of a GPU as ``resolve_device`` does, but None for an unknown GPU.

    Words that say the maker or the family may be missing, if one GPU remains: ``4090``.
    """
    words = " ".join(name.lower().split())
    if words in names:
        return names[words]
    short = _shorten(words)
    found = {device for known, device in names.items() if short and _shorten(known) == short}
    return found.pop() if len(found) == 1 else None


def _shorten(name: str) -> str:
    words = re.findall(r"[a-z0-9]+", name)
    return " ".join(word for word in words if word not in _FAMILY_WORDS)


class LaunchShape(NamedTuple):
    """A launch and its grid."""

    launch: Launch
    grid: int
    cluster: int
    """Blocks of a cluster; 1 without clusters."""


class ChangedShape(NamedTuple):
    """A launch after a change."""

    shape: LaunchShape
    ratios: dict[str, float]
    """Of ``_RATIOS`` that change: new ÷ old."""
    changes: list[dict[str, Any]]
    assumed: list[str]


def parse_launch_changes(
    now: LaunchShape, known: Mapping[str, float], wanted: Mapping[str, str | float]
) -> ChangedShape:
    """Return a launch with changes as typed.

    Args:
        now: The launch.
        known: Its metrics.
        wanted: By a name of ``LAUNCH_CHANGES``, the value; ``+`` or ``-`` adds to the present one.

    Raises:
        UnknownNameError: No such change.
        BadValueError: A value that a launch cannot have, or one that needs the present one.
    """
    for name in wanted:
        if name not in LAUNCH_CHANGES:
            raise UnknownNameError("change", name, LAUNCH_CHANGES, _HELP, _find_meant(name))
    values = _list_values(now)
    ratios = {
        name: _parse_ratio(name, str(wanted[name]), known) for name in wanted if name in _RATIOS
    }
    typed = {
        name: _parse_value(name, str(text), values[name])
        for name, text in wanted.items()
        if name not in _RATIOS
    }
    factors = {name: new / old for name, (old, new) in ratios.items()}
    follows, assumed = _complete_change(values, typed, factors)
    then = {**values, **typed, **follows}
    pairs = {**ratios, **{name: (values[name], then[name]) for name in (*typed, *follows)}}
    changes = [{"name": name, "now": old, "to": new} for name, (old, new) in pairs.items()]
    moved = now.launch._replace(
        threads=then["threads"],
        registers=then["registers"],
        static_bytes=then["static_smem"],
        dynamic_bytes=then["dynamic_smem"],
    )
    return ChangedShape(
        LaunchShape(moved, then["grid"], then["cluster"]), factors, changes, assumed
    )


def _find_meant(name: str) -> str | None:
    word = name.lower().replace("-", "_")
    return next((change for change, words in _MEANT.items() if word in words.split()), None)


def _list_values(shape: LaunchShape) -> dict[str, int]:
    return {
        "threads": shape.launch.threads,
        "grid": shape.grid,
        "registers": shape.launch.registers,
        "static_smem": shape.launch.static_bytes,
        "dynamic_smem": shape.launch.dynamic_bytes,
        "cluster": shape.cluster,
    }


def _complete_change(
    values: Mapping[str, int], typed: Mapping[str, int], factors: Mapping[str, float]
) -> tuple[dict[str, int], list[str]]:
    """Return what follows from the wanted changes, and what is assumed."""
    follows: dict[str, int] = {}
    assumed: list[str] = []
    threads = typed.get("threads", values["threads"])
    if "grid" not in typed and threads != values["threads"]:
        grid = math.ceil(values["grid"] * values["threads"] / threads)
        follows = {"grid": grid}
        assumed.append(f"as many threads in all, so {grid:,} blocks; grid=N where it differs")
    if "stages" in factors and not any(name in typed for name in _SIZES):
        ring = "dynamic_smem" if values["dynamic_smem"] else "static_smem"
        follows = {**follows, ring: round(values[ring] * factors["stages"])}
        assumed.append(f"all of {ring} is the ring; {ring}=SIZE where it is not")
    if "registers" not in typed and (factors or threads != values["threads"]):
        assumed.append(f"still {values['registers']} registers a thread; kb build tells")
    if factors.keys() & {"vector", "unroll"} and "grid" not in typed:
        assumed.append(f"still {values['grid']:,} blocks; grid=N where it differs")
    return follows, assumed


def _parse_value(name: str, text: str, now: int) -> int:
    """Return a value as typed: plain, or added to the present one by a sign."""
    word = text.strip()
    sign = {"+": 1, "-": -1}.get(word[:1], 0)
    bare = word[1:] if sign else word
    if name in _SIZES:
        size = parse_byte_count(name, bare)
        value = now + sign * size if sign else size
        if value < 0:
            raise BadValueError(f"{name} is {now:,} B now, so {text} leaves less than none")
        return value
    most = _MOST.get(name, _MOST_GRID)
    number = parse_whole_number(name, bare, 1, most)
    return parse_whole_number(name, str(now + sign * number), 1, most) if sign else number


def _parse_ratio(name: str, text: str, known: Mapping[str, float]) -> tuple[float, float]:
    """Return the present and the wanted number: ``NOW:THEN``, or the wanted one alone."""
    first, colon, second = text.partition(":")
    most = _MOST.get(name, _WIDEST_ACCESS)
    then = parse_whole_number(name, second if colon else first, 1, most)
    if colon:
        return float(parse_whole_number(name, first, 1, most)), float(then)
    if name == "stages":
        raise BadValueError(
            f"how many stages there are now is not in a report; write stages=2:{then}"
        )
    if name == "unroll":
        return 1.0, float(then)
    now = known.get("lane_bytes", 0.0)
    if now <= 0:
        raise BadValueError(f"bytes a lane are not in the report; write vector=4:{then}")
    return float(now), float(then)


KNOWN_GROUPS: dict[int, tuple[dict[int, int], ...]] = {
    132: ({16: 5, 18: 2, 8: 1, 2: 4}, {16: 6, 18: 2})
}
"""By the SMs of a GPU, how they may be grouped (GPCs and parts of them): as the driver's counts of
clusters show it for one H200, and without SMs apart. Cards of one kind differ."""


def describe_clusters(
    known: Mapping[str, float], now: LaunchShape, then: LaunchShape, sm_count: int, blocks: int
) -> str | None:
    """Return what is known of where clusters fit; None without clusters.

    Args:
        known: Metrics of the launch.
        now: The launch.
        then: The changed one.
        sm_count: SMs of the GPU.
        blocks: Of the changed launch that fit on an SM.
    """
    if then.cluster == now.cluster == 1:
        return None
    held, slots = known.get("cluster_limit_count"), sm_count * blocks
    share = f"clusters of {now.cluster} take {held * now.cluster:.0f} block slots" if held else ""
    if then.cluster == now.cluster and then.launch == now.launch:
        return share or None
    if then.cluster == 1:
        return f"{share}; without them all {slots}" if share else "no clusters"
    counts = _count_known_clusters(then.cluster, sm_count, blocks)
    if not counts:
        return (
            f"GPCs of {sm_count} SMs are not known here; the time counts no idle SMs for clusters"
        )
    least, most = counts[0], counts[-1]
    told = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"{told} at a time, {least * then.cluster} or more of {slots} block slots; cards differ, "
        "cudaOccupancyMaxActiveClusters tells"
    )


def find_cluster_share(
    known: Mapping[str, float], now: LaunchShape, then: LaunchShape, sm_count: int, blocks: int
) -> float:
    """Return the share of block slots that clusters can take, after ÷ before; 1 if not known.

    Args are those of ``describe_clusters``.
    """
    if then.cluster == now.cluster or not blocks:
        return 1.0
    held, slots = known.get("cluster_limit_count"), known.get("tightest_limit_block_count")
    before = held * now.cluster / (slots * sm_count) if held and slots and now.cluster > 1 else 1.0
    counts = _count_known_clusters(then.cluster, sm_count, blocks)
    after = counts[0] * then.cluster / (sm_count * blocks) if counts else 1.0
    return min(1.0, after) / min(1.0, before) or 1.0


def _count_known_clusters(size: int, sm_count: int, blocks: int) -> list[int]:
    """Return the clusters that each known grouping holds, the fewest first."""
    from kernelkb.device_math.occupancy import count_clusters

    known = KNOWN_GROUPS.get(sm_count, ())
    return sorted(count_clusters(groups, blocks, size) for groups in known)
