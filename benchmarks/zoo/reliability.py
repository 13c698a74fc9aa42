"""Tells how far a confidence can be trusted, by what was counted: a reliability table on the zoo.

``ncu`` without options collects little of what the recordings of the zoo hold. Each set keeps of
them what such a report has, as the reader finds it in real ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.zoo.recordings import PairRecording
from benchmarks.zoo.score import CURED, Judged, judge_pairs, read_all_recordings

from kernelkb.actions.project.rules_cache import load_compiled_rules

_BINS = 5
_PAGE = """
    sm_utilization memory_utilization l1_utilization l2_utilization dram_utilization profiled_us
    sm_elapsed_cycles sm_active_mean_cycles block_thread_count grid_block_count register_count
    static_shared_bytes dynamic_shared_bytes waves sm_count limit_blocks_block_count
    limit_registers_block_count limit_shared_memory_block_count limit_warps_block_count
    theoretical_occupancy occupancy
"""
"""Of the sections that ``ncu`` prints without options: speed of light, launch, occupancy."""
_BASIC_BEFORE_2024 = f"""{_PAGE}
    adu_utilization alu_utilization fma_utilization fp16_utilization fp64_utilization
    tensor_utilization xu_utilization tex_utilization lsu_utilization issue_utilization
    l1_request_utilization lsu_request_utilization lsu_wavefront_utilization
    lsu_writeback_utilization l2_atomic_utilization l2_data_utilization l2_input_utilization
    l2_output_utilization l2_sector_utilization l2_tag_utilization allocated_register_count
    sm_active_warps
"""
"""A report of the same sections also holds the parts of each unit's use."""
_BASIC = f"""{_BASIC_BEFORE_2024}
    fma_heavy_utilization tma_utilization l2_busiest_atomic_utilization cluster_block_count
    stack_bytes sm_active_max_cycles dram_active_max_cycles dram_active_mean_cycles
    dram_elapsed_cycles l1_active_max_cycles l1_active_mean_cycles l1_elapsed_cycles
    l2_active_max_cycles l2_active_mean_cycles l2_elapsed_cycles scheduler_active_max_cycles
    scheduler_active_mean_cycles scheduler_elapsed_cycles
"""
_NOT_IN_A_REPORT = """
    algorithmic_bytes algorithmic_flop_count kernel_us call_us call_launch_count launch_floor_us
    copy_peak_gbps
"""
"""What kernel.yaml and a bench tell."""
SETS = {
    "the full set, in a project": None,
    "a full report alone": f"all but {_NOT_IN_A_REPORT}",
    "the basic set": _BASIC,
    "the basic set before 2024": _BASIC_BEFORE_2024,
    "its page as printed": _PAGE,
}


def describe_reliability(measured: Path | None = None) -> Iterator[str]:
    """Yield, for each set, how often the first cause was right, by the confidence it came with.

    Args:
        measured: Folder of recordings; by default the project's, or else the shipped one.

    Raises:
        BadValueError: There are no recordings.
    """
    rules, recordings = load_compiled_rules(), read_all_recordings(measured)
    yield (
        "| counted | pairs | no cause | first | in three | first change | gains told | "
        "intervals hold |"
    )
    yield "|---" * 8 + "|"
    tables: list[str] = []
    for title, words in SETS.items():
        kept = None if words is None else _choose(words, recordings)
        judged = [one for one in judge_pairs(rules, recordings, kept) if one.pair.kind in CURED]
        yield _describe_set(title, judged)
        tables += ["", f"{title}: confidence of the first cause, and how often it was right"]
        tables += _describe_bins([one for one in judged if one.matches])
    yield from tables


def _choose(words: str, recordings: Sequence[PairRecording]) -> Collection[str]:
    """Return the names of a set, which may be told by what it lacks."""
    if not words.startswith("all but "):
        return words.split()
    lacks = words.split()
    return {name for one in recordings for name in one.before.metrics if name not in lacks}


def _describe_set(title: str, judged: Sequence[Judged]) -> str:
    told = [one for one in judged if one.names_cause(1) and one.matches[0]["predicted_speedup"]]
    held = sum(one.told["low"] <= one.recording.speedup <= _reach_up(one) for one in told)
    cells = (
        title,
        len(judged),
        sum(not one.matches for one in judged),
        sum(one.names_cause(1) for one in judged),
        sum(one.names_cause(3) for one in judged),
        sum(one.names_change() for one in judged),
        len(told),
        held,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _reach_up(one: Judged) -> float:
    """Return the upper end of an interval, as far from the point as the lower one.

    An answer ends it at the roof; a change that lowers the roof may pass that.
    """
    return one.told["point"] ** 2 / one.told["low"]


def _describe_bins(judged: Sequence[Judged]) -> Iterator[str]:
    for low in range(_BINS):
        rows = [one for one in judged if int(min(_first(one) * _BINS, _BINS - 1)) == low]
        if rows:
            right, told = mean(one.names_cause(1) for one in rows), mean(map(_first, rows))
            change = mean(one.names_change() for one in rows)
            span = f"{low / _BINS:.1f} to {(low + 1) / _BINS:.1f}"
            shares = f"told {told:.2f}, right {right:.2f}, change {change:.2f}"
            yield f"  {span}: {len(rows):3} pairs, {shares}"


def _first(one: Judged) -> float:
    return one.matches[0]["confidence"]
