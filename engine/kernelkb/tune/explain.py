"""Why a winner is faster than the default: both profiled, and what differs (``kb tune --why``)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kernelkb.actions.kernels.measure_variant import profile_built
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import KbError
from kernelkb.measure.build.build import build
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.model.answers.recommendation import TimeShare
from kernelkb.model.base import Target
from kernelkb.model.kernels.tuning import FactChange, GainExplanation, SavedTime, TuningResult
from kernelkb.model.records.measurement import Bench, Build
from kernelkb.profiles.machine_code import count_built_code
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.space import evaluate_expression

_ON_A_CPU = "counters are read on a GPU only"
_MIN_SAVED = 0.01
"""Least change of a part that is told, as a share of the time of the default."""
_MIN_CHANGE = 0.05
"""Least relative change of a fact that is told."""
_MIN_SHARE = 0.02
"""Least change of a share that is told, however large its ratio is."""
_FACTS = {
    "occupancy": "occupancy",
    "theoretical_occupancy": "occupancy by resources",
    "register_count": "registers of a thread",
    "shared_bytes": "shared memory of a block",
    "spill_store_bytes": "spilled registers",
    "block_thread_count": "threads of a block",
    "grid_block_count": "blocks",
    "waves": "waves",
    "tensor_utilization": "tensor cores",
    "warpgroup_utilization": "tensor cores by warpgroups",
    "issue_rate": "issue slots",
    "instruction_count": "executed instructions",
    "dram_bytes": "device memory traffic",
    "dram_utilization": "device memory",
    "l2_utilization": "L2",
    "l2_hit_rate": "L2 hits",
    "l1_hit_rate": "L1 hits",
    "lsu_wavefront_utilization": "shared memory and L1 wavefronts",
    "shared_load_conflict_share": "bank conflicts of shared loads",
    "shared_store_conflict_share": "bank conflicts of shared stores",
    "vector_loop_count": "vectorized loops",
    "scalar_loop_count": "scalar loops",
}
"""Metrics that tell how a configuration differs, with their titles. ``shared_bytes`` is the sum of
static and dynamic shared memory."""
_INSTRUCTIONS = "instructions"
_STALL = "stall_"
_NO_STALLS = ("stall_selected", "stall_not_selected")


class ProfiledConfiguration(NamedTuple):
    """What is known about one configuration."""

    time_us: float
    """Of a call, measured in turns with the other one."""
    metrics: Mapping[str, float]
    instructions: Mapping[str, float]
    """Of its machine code, by kind."""
    no_counters: str | None = None
    """Why no counters were read."""
    cure: str | None = None
    report: str | None = None
    """The profile, with what was counted by instruction."""


def explain_winner(plan: TuningPlan, result: TuningResult) -> TuningResult:
    """Return the result with why its winner is faster; its seconds count what this takes.

    Takes two profiles on the device. Where no winner is faster than the default, nothing is done.

    Args:
        plan: What was searched.
        result: Of ``tune``.
    """
    winner, started = result.winner, time.monotonic()
    if winner is None or result.default_us is None:
        return result
    machine = plan.bench_target.subject.machine
    try:
        default = _profile_configuration(plan, result.default, result.default_us)
        fastest = _profile_configuration(plan, winner.configuration, winner.time_us)
    except KbError as error:  # the search is worth more than its explanation
        why = GainExplanation(no_counters=str(error))
    else:
        rules = load_compiled_rules()
        why = explain_gain(rules, default, fastest, machine.target, machine.device)
    seconds = result.seconds + time.monotonic() - started
    return result.model_copy(update={"why": why, "seconds": seconds})


def _profile_configuration(
    plan: TuningPlan, configuration: Mapping[str, int], time_us: float
) -> ProfiledConfiguration:
    subject = plan.bench_target.subject
    defines = plan.format_trial_defines(configuration)
    built = build(subject, plan.bench_target.build_root, defines)
    timed = Bench(
        **subject.identity_fields,
        workload=plan.workload,
        verdict="inconclusive",
        candidate_us=time_us,
        seconds=0.0,
    )
    profiled = profile_built(plan.bench_target, built, timed)
    known = {**list_formula_metrics(plan, configuration, built), **profiled.metrics}
    if subject.machine.target == "cpu":
        return ProfiledConfiguration(time_us, known, {}, _ON_A_CPU)
    code = count_built_code(find_machine_code(built))
    if profiled.tool == "ncu":  # a later stage that failed leaves those before it
        return ProfiledConfiguration(time_us, known, code, report=profiled.report)
    return ProfiledConfiguration(time_us, known, code, profiled.detail, profiled.cure)


def list_formula_metrics(
    plan: TuningPlan, configuration: Mapping[str, int], built: Build
) -> dict[str, float]:
    """Return what ptxas and the formulas of the space tell about a configuration, by metric id."""
    subject = plan.bench_target.subject
    space, sizes = subject.variant.tune, subject.kernel.workloads[plan.workload]
    metrics: dict[str, float] = {}
    if built.resources:
        largest = max(built.resources, key=lambda one: one.registers)
        metrics["register_count"] = float(largest.registers)
        metrics["static_shared_bytes"] = float(largest.static_smem_bytes)
    formulas = {
        "block_thread_count": space.threads if space else None,
        "grid_block_count": space.blocks if space else None,
        "dynamic_shared_bytes": space.shared_bytes if space else None,
    }
    for name, expression in formulas.items():
        if expression is not None:
            metrics[name] = evaluate_expression(expression, configuration, sizes)
    if "dynamic_shared_bytes" in metrics:  # the formula is of both
        metrics["dynamic_shared_bytes"] -= metrics.get("static_shared_bytes", 0.0)
    return metrics


def explain_gain(
    rules: CompiledRules,
    default: ProfiledConfiguration,
    winner: ProfiledConfiguration,
    target: Target = "cuda",
    device: str | None = None,
) -> GainExplanation:
    """Return where the winner saves time, and what differs in launch, counters and machine code.

    Args:
        rules: The compiled rules.
        default: The default configuration.
        winner: The fastest one.
        target: Where both ran.
        device: Id of the GPU; None if unknown.
    """
    peaks = read_peak_metrics(device)
    known, times = [], []
    for side in (default, winner):
        answer = recommend(rules, side.metrics, target=target, device=device, peaks=peaks)
        times.append(answer["time"])
        known.append(_add_shared_bytes(complete_metrics(rules, {**peaks, **side.metrics}, device)))
    changes = [
        *_compare_facts(rules, known[0], known[1]),
        *_compare_instructions(default.instructions, winner.instructions),
    ]
    lacking = default if default.no_counters else winner
    reports = tuple(side.report for side in (default, winner) if side.report)
    return GainExplanation(
        parts=tuple(compare_times((times[0], times[1]), (default.time_us, winner.time_us))),
        changes=tuple(sorted(changes, key=lambda one: -_measure_change(one))),
        no_counters=lacking.no_counters,
        cure=lacking.cure,
        reports=reports if len(reports) == len(known) else (),
    )


def compare_times(
    shares: tuple[Sequence[TimeShare], Sequence[TimeShare]], times_us: tuple[float, float]
) -> list[SavedTime]:
    """Return what each part of the time budget of default and winner saves, most first.

    Args:
        shares: Of the default and of the winner; empty where counters are missing.
        times_us: Of the default and of the winner.
    """
    if not all(shares):
        return []
    old, new = ({row["part"]: row for row in side} for side in shares)
    parts = []
    for name in {**old, **new}:
        before, now = old.get(name), new.get(name)
        default_us = before["share"] * times_us[0] if before else None
        winner_us = now["share"] * times_us[1] if now else None
        saved_us = (default_us or 0.0) - (winner_us or 0.0)
        if abs(saved_us) >= _MIN_SAVED * times_us[0]:
            title = (before or new[name])["title"]
            parts.append(
                SavedTime(
                    title=title, default_us=default_us, winner_us=winner_us, saved_us=saved_us
                )
            )
    return sorted(parts, key=lambda one: -abs(one.saved_us))


def _add_shared_bytes(known: dict[str, float]) -> dict[str, float]:
    static, dynamic = known.get("static_shared_bytes"), known.get("dynamic_shared_bytes")
    if static is not None or dynamic is not None:
        known["shared_bytes"] = (static or 0.0) + (dynamic or 0.0)
    return known


def _compare_facts(
    rules: CompiledRules, default: Mapping[str, float], winner: Mapping[str, float]
) -> Iterator[FactChange]:
    titles = {**_FACTS, **dict(_name_stalls(default)), **dict(_name_stalls(winner))}
    for metric, title in titles.items():
        before, now = default.get(metric), winner.get(metric)
        if before is None or now is None:
            continue
        row = rules["metrics"].get(metric)
        unit = row["unit"] if row else "bytes"
        one = FactChange(metric=metric, title=title, unit=unit, default=before, winner=now)
        if _is_told(one):
            yield one


def _name_stalls(known: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield the stall reason that takes most of a warp's time."""
    stalls = {
        name: value
        for name, value in known.items()
        if name.startswith(_STALL) and not name.endswith("_cycles") and name not in _NO_STALLS
    }
    if stalls:
        name = max(stalls, key=lambda one: stalls[one])
        yield name, f"waiting: {name.removeprefix(_STALL).replace('_', ' ')}"


def _compare_instructions(
    default: Mapping[str, float], winner: Mapping[str, float]
) -> Iterator[FactChange]:
    for kind in {**default, **winner}:
        if kind == "registers" or not (default and winner):
            continue
        one = FactChange(
            metric=kind,
            title=kind.replace("_", " "),
            unit=_INSTRUCTIONS,
            default=default.get(kind, 0.0),
            winner=winner.get(kind, 0.0),
        )
        if _is_told(one):
            yield one


def _is_told(change: FactChange) -> bool:
    if change.unit == "share" and abs(change.winner - change.default) < _MIN_SHARE:
        return False
    return _measure_change(change) >= _MIN_CHANGE


def _measure_change(change: FactChange) -> float:
    """Return the change as a share of the larger value, 0 to 1."""
    largest = max(abs(change.default), abs(change.winner))
    difference = abs(change.winner - change.default)
    return difference / largest if largest and math.isfinite(largest) else 0.0
