"""Compares two calls of several kernels: what each took in all its launches, and what moved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from kernelkb.actions.project.profile_reports import IndexedLaunch, Pairing, pair_launches
from kernelkb.model.answers.report_comparison import (
    CallChange,
    KernelFate,
    KernelTotal,
    LevelChange,
    MemoryLevel,
    ResidencyChange,
)
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.profiles.report import read_run
from kernelkb.profiles.timeline import ProgramRun

NOISE = 0.03
"""Share by which durations of one kernel differ from one profile to the next (judgement)."""
_LITTLE = 0.005
"""Share of a call that a kernel has to change by, to be told apart from noise (judgement)."""
_MIN_SHARED_WORDS = 0.5
"""Least share of the words of two names that are in both, for one to be the other renamed."""
_PLAIN_WORDS = frozenset(
    ["kernel", "fwd", "forward", "bwd", "backward", "fused", "gpu", "cuda", "device", "global"]
)
"""Words of names that say nothing of what a kernel computes."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SECTOR_BYTES = 32.0


class _Level(NamedTuple):
    level: MemoryLevel
    title: str
    metrics: tuple[str, ...]
    """Their sum counts; one that is missing makes it unknown."""
    factor: float = 1.0


_LEVELS = (
    _Level("dram-read", "DRAM read", ("dram_read_bytes",)),
    _Level("dram-write", "DRAM written", ("dram_write_bytes",)),
    _Level("l2", "L2", ("l2_sector_count",), _SECTOR_BYTES),
    _Level(
        "l1",
        "L1",
        ("load_sector_count", "store_sector_count", "local_load_sector_count",
         "local_store_sector_count"),
        _SECTOR_BYTES,
    ),
    _Level("shared", "shared", ("shared_load_wavefront_count", "shared_store_wavefront_count")),
)  # fmt: skip
_RESIDENCY = (
    ("register_count", "registers a thread"),
    ("shared_bytes", "shared bytes a block"),
    ("theoretical_warps", "resident warps an SM"),
    ("waves", "waves"),
)
_LEAST_MOVE = 0.02
"""Share by which the bytes of a level have to differ to be told."""


def compare_levels(before: Mapping[str, float], now: Mapping[str, float]) -> list[LevelChange]:
    """Return what moved at each level of memory that one of two launches counts.

    Args:
        before: Metrics of the old launch, or sums of those of several.
        now: Of the new one.
    """
    rows: list[LevelChange] = []
    for level in _LEVELS:
        sides = [_sum_level(level, side) for side in (before, now)]
        if any(side is not None for side in sides):
            rows.append(
                {
                    "level": level.level,
                    "title": level.title,
                    "unit": "passes" if level.level == "shared" else "bytes",
                    "before": sides[0],
                    "now": sides[1],
                }
            )
    return rows


def _sum_level(level: _Level, metrics: Mapping[str, float]) -> float | None:
    found = [metrics.get(name) for name in level.metrics]
    known = [value for value in found if value is not None]
    # Local accesses are counted by few recipes, and absent where the compiler made none.
    if not known or found[0] is None:
        return None
    return level.factor * sum(known)


def has_moved(before: float | None, now: float | None) -> bool:
    """Return whether a number of both sides differs by more than a fiftieth."""
    if before is None or now is None:
        return False
    return abs(now - before) > _LEAST_MOVE * max(before, now)


def compare_residency(
    before: Mapping[str, float], now: Mapping[str, float]
) -> list[ResidencyChange]:
    """Return the registers, shared memory, resident warps and waves that changed.

    Args:
        before: Measured and derived metrics of the old launch.
        now: Of the new one.
    """
    sides = [_add_shared_bytes(side) for side in (before, now)]
    return [
        {"title": title, "before": sides[0][name], "now": sides[1][name]}
        for name, title in _RESIDENCY
        if name in sides[0] and name in sides[1] and has_moved(sides[0][name], sides[1][name])
    ]


def _add_shared_bytes(known: Mapping[str, float]) -> dict[str, float]:
    parts = [known.get(name) for name in ("static_shared_bytes", "dynamic_shared_bytes")]
    held = [part for part in parts if part is not None]
    return {**known, "shared_bytes": sum(held)} if held else dict(known)


def pair_renamed(pairing: Pairing) -> Pairing:
    """Return a pairing with those launches paired, too, whose kernel has another name now.

    Those are kernels that share most words of their names, then the ones that are left where only
    one is left on each side.
    """
    old, new = list(pairing.only_before), list(pairing.only_now)
    pairs = list(pairing.pairs)
    for names in _match_names(_list_names(old), _list_names(new)):
        one = _take_longest(old, names[0])
        pairs.append((one, _take_longest(new, names[1])))
    return Pairing(pairs, old, new)


def _list_names(launches: Iterable[IndexedLaunch]) -> list[str]:
    return list(dict.fromkeys(one.name for one in launches))


def _take_longest(launches: list[IndexedLaunch], name: str) -> IndexedLaunch:
    """Return the longest launch of a name, and remove it."""
    found = max((one for one in launches if one.name == name), key=lambda one: one.duration_us)
    launches.remove(found)
    return found


def _match_names(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """Return which names of kernels became which, each once."""
    scored = sorted(
        ((_share_words(one, other), one, other) for one in old for other in new), reverse=True
    )
    found: list[tuple[str, str]] = []
    used = _list_joined(old, new) | _list_joined(new, old)
    for score, one, other in scored:
        if score >= _MIN_SHARED_WORDS and not used & {one, other}:
            found.append((one, other))
            used |= {one, other}
    left = [one for one in old if one not in used], [one for one in new if one not in used]
    return [*found, (left[0][0], left[1][0])] if len(left[0]) == 1 == len(left[1]) else found


def _list_joined(parts: Sequence[str], wholes: Sequence[str]) -> set[str]:
    return {name for whole, within in find_joined(parts, wholes) for name in (whole, *within)}


def _split_words(name: str) -> frozenset[str]:
    words = {word.lower() for word in _WORD.findall(name.rpartition("::")[2])}
    return frozenset(words - _PLAIN_WORDS)


def _share_words(one: str, other: str) -> float:
    words = _split_words(one), _split_words(other)
    every = words[0] | words[1]
    return len(words[0] & words[1]) / len(every) if every else 0.0


def find_joined(parts: Sequence[str], wholes: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the kernels whose name holds all words of two or more others, with those.

    Args:
        parts: Names of kernels of one side only.
        wholes: Those of the other side only.
    """
    for whole in wholes:
        words = _split_words(whole)
        within = [part for part in parts if _split_words(part) and _split_words(part) <= words]
        if len(within) > 1:
            yield whole, within


@dataclass(eq=False)
class _KernelRow:
    """All launches of one kernel, or of those that became one."""

    before: list[IndexedLaunch] = field(default_factory=list)
    now: list[IndexedLaunch] = field(default_factory=list)
    fate: KernelFate = "kept"


def total_call(
    pairing: Pairing, before: Sequence[IndexedLaunch], now: Sequence[IndexedLaunch]
) -> CallChange:
    """Return what all launches of two reports take, and each kernel's part of it.

    Args:
        pairing: Which kernels belong together; see ``pair_renamed``.
        before: All launches of the old report.
        now: All of the new one.
    """
    kernels = [
        _total_row(row.before, row.now, row.fate) for row in _build_rows(pairing, before, now)
    ]
    sums = [_sum_metrics(side) for side in (before, now)]
    return _make_call(kernels, compare_levels(*sums), _note_launches(kernels))


def _build_rows(
    pairing: Pairing, before: Sequence[IndexedLaunch], now: Sequence[IndexedLaunch]
) -> list[_KernelRow]:
    """Return the kernels of both sides, each with all its launches there."""
    old: dict[str, _KernelRow] = {}
    new: dict[str, _KernelRow] = {}
    for one, other in pairing.pairs:
        found = [old.get(one.launch.kernel), new.get(other.launch.kernel)]
        row = next((known for known in found if known is not None), None) or _KernelRow()
        row.fate = "kept" if one.name == other.name else "renamed"
        old[one.launch.kernel] = new[other.launch.kernel] = row
    joined = _join_kernels(_list_names(pairing.only_before), _list_names(pairing.only_now))
    for one in before:
        row = old.setdefault(one.launch.kernel, joined.get(one.name, _KernelRow(fate="gone")))
        row.before.append(one)
    for one in now:
        row = new.setdefault(one.launch.kernel, joined.get(one.name, _KernelRow(fate="new")))
        row.now.append(one)
    return list({id(row): row for row in (*old.values(), *new.values())}.values())


def _join_kernels(old: Sequence[str], new: Sequence[str]) -> dict[str, _KernelRow]:
    """Return one row for the names of each fusion and each split, by these names."""
    rows: dict[str, _KernelRow] = {}
    found: tuple[tuple[KernelFate, Iterator[tuple[str, list[str]]]], ...] = (
        ("fused", find_joined(old, new)),
        ("split", find_joined(new, old)),
    )
    for fate, joined in found:
        for whole, parts in joined:
            if not rows.keys() & {whole, *parts}:
                rows |= dict.fromkeys((whole, *parts), _KernelRow(fate=fate))
    return rows


def _total_row(
    before: Sequence[IndexedLaunch], now: Sequence[IndexedLaunch], fate: KernelFate
) -> KernelTotal:
    times = [_sum_times(side) for side in (before, now)]
    return {
        "before": _list_names(before),
        "now": _list_names(now),
        "fate": fate,
        "launches_before": sum(one.launch.launch_count for one in before),
        "launches_now": sum(one.launch.launch_count for one in now),
        "before_us": times[0],
        "now_us": times[1],
        "is_noise": False,
    }


def _sum_times(launches: Sequence[IndexedLaunch]) -> float | None:
    if any(not one.duration_us for one in launches):
        return None
    return round(sum(one.duration_us * one.launch.launch_count for one in launches), 3)


def _sum_metrics(launches: Sequence[IndexedLaunch]) -> dict[str, float]:
    """Return the sums of the metrics that all launches have."""
    names = set.intersection(*(set(one.launch.metrics) for one in launches)) if launches else set()
    return {
        name: sum(one.launch.metrics[name] * one.launch.launch_count for one in launches)
        for name in names
    }


def _make_call(
    kernels: list[KernelTotal], levels: list[LevelChange], notes: list[str]
) -> CallChange:
    times = [_sum_known(row[side] for row in kernels) for side in ("before_us", "now_us")]
    longest = max((us for us in times if us is not None), default=0.0)
    ratio = round(times[0] / times[1], 4) if times[0] and times[1] else None
    judged: list[KernelTotal] = [{**row, "is_noise": _is_noise(row, longest)} for row in kernels]
    return {
        "source": "profiles",
        "before_us": times[0],
        "now_us": times[1],
        "ratio": ratio,
        "launches_before": sum(row["launches_before"] for row in kernels),
        "launches_now": sum(row["launches_now"] for row in kernels),
        "span_before_us": None,
        "span_now_us": None,
        "idle_before_us": None,
        "idle_now_us": None,
        "levels": levels,
        "kernels": sorted(judged, key=lambda row: -abs(measure_move(row))),
        "notes": notes,
    }


def _sum_known(times: Iterable[float | None]) -> float | None:
    found = list(times)
    known = [us for us in found if us is not None]
    return round(sum(known), 3) if len(known) == len(found) else None


def measure_move(row: KernelTotal) -> float:
    """Return by how many microseconds a kernel takes more now; 0 where that is not known."""
    before, now = row["before_us"], row["now_us"]
    return 0.0 if before is None or now is None else now - before


def _is_noise(row: KernelTotal, call_us: float) -> bool:
    if row["before_us"] is None or row["now_us"] is None or row["fate"] in ("new", "gone"):
        return False
    longer = max(row["before_us"], row["now_us"])
    return abs(measure_move(row)) <= max(NOISE * longer, _LITTLE * call_us)


def _note_launches(kernels: Sequence[KernelTotal]) -> list[str]:
    """Return whether one report seems to hold more calls than the other, or another call."""
    kept = [row for row in kernels if row["launches_before"] and row["launches_now"]]
    if not kept:
        return ["they share no kernel: is it the same call?"]
    ratios = {row["launches_now"] / row["launches_before"] for row in kept}
    if len(kept) < 2 or len(ratios) != 1 or ratios == {1.0}:
        return []
    before, now = kept[0]["launches_before"], kept[0]["launches_now"]
    return [f"each kernel has {before} launches before and {now} now: other numbers of calls?"]


def compare_traces(before: Path, now: Path) -> CallChange:
    """Return what two timelines of a program take: its kernels, its launches, its gaps.

    Raises:
        KbError: One cannot be read, or holds no kernel.
    """
    runs = [read_run(path) for path in (before, now)]
    old, new = map(_list_traced, runs)
    found = total_call(pair_renamed(pair_launches(old, new)), old, new)
    left = [f"without {run.warm_up:,} launches of warm-up" for run in runs if run.warm_up]
    idle = [round(run.us * run.program.metrics.get("gpu_idle_share", 0.0), 3) for run in runs]
    return {
        **found,
        "source": "traces",
        "span_before_us": round(runs[0].us, 3),
        "span_now_us": round(runs[1].us, 3),
        "idle_before_us": idle[0],
        "idle_now_us": idle[1],
        "notes": [*found["notes"], *dict.fromkeys(left)],
    }


def _list_traced(run: ProgramRun) -> list[IndexedLaunch]:
    """Return each kernel of a program as one launch, of the mean time of all of them."""
    times: dict[str, list[float]] = {}
    for kernel, us in run.launches[run.warm_up :]:
        times.setdefault(kernel, []).append(us)
    return [
        IndexedLaunch(
            at, ProfiledLaunch(kernel, {"profiled_us": mean(all_us)}, launch_count=len(all_us))
        )
        for at, (kernel, all_us) in enumerate(times.items())
    ]
