"""Scores the verdict on kernels near their floor: is a stop right, and is it told where it is due.

A stop is wrong where a later variant gained over 1.15x. Launches whose stop is due are those at the
floor of their algorithm: within 1.12x of the bytes or operations of its cost, and those that were
recorded as at their roof, where nothing gained over 1.1x. The verdict is scored with the cost that
a kernel.yaml tells, and without it, as on a report alone. Walks add states of kernels of several
flaws, each with what the best later state gained.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.zoo.pairs import list_pairs
from benchmarks.zoo.recordings import PairRecording
from benchmarks.zoo.score import read_all_recordings

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics, list_rates
from kernelkb.decide.parse_metric import find_device
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.device_math.roofline import Mix, find_mix_ceiling
from kernelkb.model.answers.recommendation import KernelAnswer
from kernelkb.model.kernels.kernel import Pair
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.profiles.report import read_report

WALKS = Path(__file__).parent.parent / "walks"
LIBRARY_CALLS = Path(__file__).parent.parent / "library_calls.jsonl.xz"
"""29 calls of torch, cuBLAS, cuDNN and cub on an H200, on which no rule was fitted."""
_OF_PROJECT = (
    *("algorithmic_bytes", "algorithmic_flop_count", "cache_ratio", "copy_peak_gbps"),
    *("call_us", "launch_floor_us", "data_integer_share"),
)
"""Metrics that a report alone does not have."""
_MARK = "spin_kernel"
"""Part of the name of the kernel before each call of a library."""
_LATER, _NO_LATER, _AT_FLOOR = 1.15, 1.1, 1.12
_WRONG_STOPS, _WRONG_GO_ONS = 0.05, 0.2
"""Shares of the launches that are allowed."""
_GAINS, _SHARES, _FLOORS = (1.05, 1.1, 1.15, 1.2), (0.75, 0.8, 0.85, 0.9), (1.15, 1.25, 1.5)


class Launch(NamedTuple):
    """One recorded launch with its answer, and what is known of what can be gained."""

    kernel: str
    kind: str
    """Of the flaw that it has or had: what a cross-validation leaves out at once."""
    is_late: bool
    """Whether a later variant gained over 1.15x."""
    is_due: bool
    """Whether it is at the floor of its algorithm."""
    answer: KernelAnswer

    @property
    def verdict(self) -> str:
        """Of the answer; empty for a kernel that is not near its floor."""
        finish = self.answer["finish"]
        return finish["verdict"] if finish else ""

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to stop, perhaps under a condition, or to be done."""
        return self.verdict in ("stop", "stop-if") or self.answer["gate"]["verdict"] == "done"


class StopScore(NamedTuple):
    """Counts of verdicts; the shares of errors are of ``late`` and of ``due``."""

    late: int
    wrong_stops: tuple[str, ...]
    wrong_conditional: tuple[str, ...]
    """Stops under the condition that each byte moves once, where a later variant moved fewer."""
    due: int
    wrong_go_ons: tuple[str, ...]


def score_stops(launches: Sequence[Launch]) -> StopScore:
    """Return how often a stop was wrong, and how often none was told that was due."""
    late = [one for one in launches if one.is_late]
    due = [one for one in launches if one.is_due]
    wrong = [one for one in late if one.is_stopped]
    return StopScore(
        late=len(late),
        wrong_stops=tuple(one.kernel for one in wrong if one.verdict != "stop-if"),
        wrong_conditional=tuple(one.kernel for one in wrong if one.verdict == "stop-if"),
        due=len(due),
        wrong_go_ons=tuple(one.kernel for one in due if not one.is_stopped),
    )


def list_launches(rules: CompiledRules, *, with_cost: bool) -> Iterator[Launch]:
    """Yield both variants of every recorded pair, and every state of the walks.

    Args:
        rules: The knowledge.
        with_cost: Whether the answer may rest on what a kernel.yaml and a bench tell.
    """
    pairs = list_pairs()
    for row in read_all_recordings():
        pair = pairs[row.kernel].pair if row.kernel in pairs else None
        if pair is not None and pair.launch_count == 1:
            yield from _list_sides(rules, row, pair, with_cost=with_cost)
    for file in sorted(WALKS.glob("*.jsonl.xz")):
        yield from _list_states(rules, file)


def _list_sides(
    rules: CompiledRules, row: PairRecording, pair: Pair, *, with_cost: bool
) -> Iterator[Launch]:
    best = max([row.speedup, *row.tempting.values()])
    for side, later in ((row.before, best), (row.after, None)):
        if not side.metrics:
            continue
        answer = recommend(rules, side.metrics, device=row.device)
        room = answer["headroom"]
        near = room is not None and room["attainable_speedup"] < _AT_FLOOR
        is_due = pair.kind == "at-roof" or (near and (later or 1.0) <= _NO_LATER)
        if not with_cost:
            kept = {name: v for name, v in side.metrics.items() if name not in _OF_PROJECT}
            answer = recommend(rules, kept, device=row.device)
        kind = pair.bottlenecks[0] if pair.bottlenecks else pair.kind
        yield Launch(row.kernel, kind, (later or 1.0) > _LATER, is_due, answer)


def _list_states(rules: CompiledRules, file: Path) -> Iterator[Launch]:
    """Yield the states of walks, none of which is known to be at its floor."""
    rows = [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]
    for row in rows:
        later = [
            other["us"]
            for other in rows
            if other["walk"] == row["walk"] and set(other["state"]) >= set(row["state"])
        ]
        device = find_device(rules["device_names"], row["device"])
        answer = recommend(rules, row["metrics"], device=device)
        gain = row["us"] / min(later)
        yield Launch(row["walk"], f"walk {row['walk']}", gain > _LATER, False, answer)


def cross_validate(launches: Sequence[Launch]) -> tuple[int, int]:
    """Return wrong stops and wrong go-ons with limits that are fitted without the same kind.

    The limits are the gain that is worth a change, the share of the ceiling of memory, and the time
    over that of the bytes that must move.
    """
    judged = [
        {limits: _is_stop(one, limits) for limits in product(_GAINS, _SHARES, _FLOORS)}
        for one in launches
    ]
    stops = go_ons = 0
    for kind in sorted({one.kind for one in launches}):
        others = [
            (one, stopped)
            for one, stopped in zip(launches, judged, strict=True)
            if one.kind != kind
        ]
        limits = min(judged[0], key=lambda limits: _measure_loss(others, limits))
        for one, stopped in zip(launches, judged, strict=True):
            if one.kind == kind:
                stops += one.is_late and stopped[limits]
                go_ons += one.is_due and not stopped[limits]
    return stops, go_ons


_Limits = tuple[float, float, float]


def _measure_loss(rows: Sequence[tuple[Launch, Mapping[_Limits, bool]]], limits: _Limits) -> float:
    """Return the errors of both kinds, each over what is allowed."""
    stops = sum(one.is_late and stopped[limits] for one, stopped in rows)
    go_ons = sum(one.is_due and not stopped[limits] for one, stopped in rows)
    late = max(1, sum(one.is_late for one, _ in rows))
    due = max(1, sum(one.is_due for one, _ in rows))
    return stops / late / _WRONG_STOPS + go_ons / due / _WRONG_GO_ONS


def _is_stop(launch: Launch, limits: _Limits) -> bool:
    """Return whether other limits would stop; at other ceilings than memory they are not fitted."""
    gain, share, floor = limits
    finish = launch.answer["finish"]
    if finish is None or finish["ceiling"]["resource"] != "memory":
        return launch.is_stopped
    told = [d["predicted_speedup"]["point"] for d in launch.answer["diagnoses"]
            if d["predicted_speedup"] and d["fixes"]]  # fmt: skip
    if max(told, default=1.0) >= gain or finish["ceiling"]["reached"] < share:
        return False
    if finish["needed_bytes"] is None:
        return True
    return finish["measured_us"] <= floor * finish["floor_us"]


def list_library_launches(
    rules: CompiledRules, rows: Sequence[Mapping[str, Any]], *, with_cost: bool
) -> Iterator[Launch]:
    """Yield the longest kernel of each call of a library that was recorded.

    No later variant of them is known. A stop is due within 1.12x of the time that what they must
    move and do takes at the ceilings.
    """
    for row in rows:
        mix, device = row["mix"], find_device(rules["device_names"], row["gpu"])
        metrics = {**row["metrics"], **(_tell_cost(mix) if with_cost else {})}
        answer = recommend(rules, metrics, device=device)
        rates, _ = list_rates(rules, complete_metrics(rules, metrics, device), device)
        work = tuple((pipe, count) for pipe, count in mix.get("work", ()))
        ceiling = find_mix_ceiling(rates, Mix(**{**mix, "work": work}))
        us = row["metrics"].get("profiled_us", 0.0)
        is_due = ceiling is not None and 0 < us <= _AT_FLOOR * (ceiling.us or 0.0)
        yield Launch(row["kernel"], "library", False, is_due, answer)


def read_library_calls(folder: Path | None) -> list[dict[str, Any]]:
    """Return the calls that ``benchmarks.ceilings --library`` profiled, with their metrics.

    Args:
        folder: Its reports; None for the calls on record, of one H200.
    """
    if folder is None:
        texts = lzma.decompress(LIBRARY_CALLS.read_bytes()).splitlines()
        return [json.loads(text) for text in texts]
    calls = [json.loads(text) for text in (folder / "calls.jsonl").read_text("utf-8").splitlines()]
    raw_names, found = list_raw_names(load_compiled_rules()), []
    for report in sorted({row["report"] for row in calls}):
        rows = [row for row in calls if row["report"] == report and "error" not in row]
        if not (folder / report).is_file():
            continue
        launches = _find_longest(read_report(folder / report, raw_names))
        for row, launch in zip(rows, launches, strict=False):
            if launch is not None:  # a copy by the driver is none that ncu counts
                kept = {"kernel": row["kernel"], "mix": row["mix"], "gpu": launch.device}
                found.append({**kept, "metrics": launch.metrics})
    return found


def _find_longest(launches: Sequence[ProfiledLaunch]) -> Iterator[ProfiledLaunch | None]:
    """Yield the longest launch after each mark; None where there is none."""
    calls: list[list[ProfiledLaunch]] = []
    for launch in launches:
        if _MARK in launch.kernel:
            calls.append([])
        elif calls:
            calls[-1].append(launch)
    for one in calls:
        yield max(one, key=lambda launch: launch.metrics.get("profiled_us", 0.0), default=None)


def _tell_cost(mix: Mapping[str, float]) -> dict[str, float]:
    """Return what a kernel.yaml would tell of the bytes of a mix."""
    names = ("read_bytes", "write_bytes", "random_bytes")
    needed = sum(mix.get(name, 0.0) for name in names)
    return {"algorithmic_bytes": needed} if needed else {}


def format_library_lines(folder: Path | None = None) -> Iterator[str]:
    """Yield the counts on the calls of libraries, and each that was told another thing than due."""
    rules, rows = load_compiled_rules(), read_library_calls(folder)
    for with_cost in (True, False):
        launches = list(list_library_launches(rules, rows, with_cost=with_cost))
        due = [one for one in launches if one.is_due]
        go_ons = [one for one in due if not one.is_stopped]
        early = [one for one in launches if one.is_stopped and not one.is_due]
        yield f"{'with the cost of the calls' if with_cost else 'from a report alone'}"
        yield f"  {len(launches)} calls of libraries, {len(due)} at the ceiling of their work"
        yield f"    of these told to go on {len(go_ons)}"
        yield f"    of the others told to stop {len(early)}"
        for one in (*go_ons, *early):
            yield f"    {one.kernel}: {one.verdict or 'no verdict'}"


def format_stop_lines() -> Iterator[str]:
    """Yield the counts, with and without the cost of the kernels."""
    rules = load_compiled_rules()
    for with_cost in (True, False):
        launches = list(list_launches(rules, with_cost=with_cost))
        score = score_stops(launches)
        yield f"{'with the cost of kernel.yaml' if with_cost else 'from a report alone'}"
        wrong, unsure = len(score.wrong_stops), len(score.wrong_conditional)
        yield f"  a later variant gained over {_LATER:g}x: {score.late} launches"
        yield f"    told to stop {wrong}, told to stop if each byte moves once {unsure}"
        yield f"  at the floor: {score.due} launches, told to go on {len(score.wrong_go_ons)}"
        stops, go_ons = cross_validate(launches)
        yield f"  limits fitted without the same kind: {stops} wrong stops, {go_ons} wrong go-ons"
        for name in sorted({*score.wrong_stops, *score.wrong_conditional, *score.wrong_go_ons}):
            yield f"    {name}"
