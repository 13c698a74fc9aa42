"""Computes the recommendation for one kernel: gate, diagnoses, fixes, what to measure next."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from kernelkb.decide.conditions import (
    Facts,
    evaluate_comparisons,
)
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.device_facts import describe_next_step
from kernelkb.decide.diagnose import (
    LEAST_SURE,
    BottleneckMatch,
    DiagnosisResult,
    GateWalk,
    OpenBottlenecks,
    build_unknown_diagnosis,
    diagnose,
    put_structure_first,
    rank_matches,
    rank_open_bottlenecks,
    walk_gate_tree,
)
from kernelkb.decide.headroom import (
    build_outlook,
    describe_finish,
    find_gap,
    is_likely_product,
)
from kernelkb.decide.next_measurement import choose_next_measurements, strip_kernel_signature
from kernelkb.decide.predict import Predictor
from kernelkb.decide.time_model import find_held_clock
from kernelkb.model.answers.next_step import FixEdit, KeepCondition, Sentence

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, LibraryRow
    from kernelkb.model.answers.next_step import Step
    from kernelkb.model.answers.recommendation import (
        Advice,
        Conclusions,
        Diagnosis,
        Expectation,
        Finish,
        Gap,
        Gate,
        KernelAnswer,
        LaunchTime,
        Level,
        Recommendation,
    )
    from kernelkb.model.answers.source_place import ChangePlace


PERFORMANCE_GATE = "performance-gate"
"""Id of the tree that every recommendation evaluates first."""

_AT_ROOF = "at-roof"
"""Its leaf for a kernel that is finished."""

RESTRUCTURING = "restructuring"
"""Id of the tree that names the change of structure where a gap is left."""

_TILE = "tile-the-product"
"""Its leaf for a product without a tile, which comes first wherever memory binds."""

_PRODUCT_NAME = re.compile(
    r"^(?!.*(?:sp(?:arse|_?mat|gemm|mm)|bsr|csr|reduce|transpose|pack|im2col|quant|prepare|norm"
    r"|check|fill|memory))"
    r".*(?:gemm(?!v)|mat(?:rix)?_?mul(?!_?vec)|(?<![a-z0-9])(?:b|add|baddb)?mm(?![a-z0-9]|_to_))",
    re.IGNORECASE,
)
"""How kernels are named that multiply dense matrices, and not what is done before or after it."""

EVIDENCE_LEVELS: tuple[Level, ...] = ("L0", "L1", "L2", "L3", "L4")

_MAX_OPEN_CONSIDERED = 100
"""Maximum number of unknown bottlenecks for which the next measurements are chosen."""

_MAX_OPEN_LISTED = 10
"""Maximum number of unknown diagnoses in an answer."""

_MANY_UNDECIDED = 3
"""More causes than this left open by missing counters are worth a note."""


_FASTER = "it is faster by more than the times vary"
"""What decides where no counter moves by more than it varies."""

_TIMES = ("kernel_us", "profiled_us", "speedup")
"""Metrics that are a time: of another, an edit can reach the value and gain nothing."""

_ASK_BYTES = (
    "if it is a product of matrices, it must read each operand once: --metric algorithmic_bytes=N "
    "tells how often it does"
)

_NO_LAUNCH: LaunchTime = {"launch": 0, "duration_us": None, "share": None}


def recommend(
    rules: CompiledRules,
    metrics: Mapping[str, float],
    *,
    target: str = "cuda",
    device: str | None = None,
    kernel: str = "",
    peaks: Mapping[str, float] | None = None,
) -> KernelAnswer:
    """Return whether to continue, what limits the kernel, and what to change or measure next.

    Args:
        rules: The compiled rules.
        metrics: Values by metric id, in its unit; those that are not finite are ignored.
        target: ``cuda`` or ``cpu``.
        device: Id of the GPU; None if unknown.
        kernel: Its name, for the answer and the commands in it; may be empty.
        peaks: Measured on the GPU, by metric id; no evidence about the kernel.
    """
    predictor = Predictor(rules, facts := _compare_metrics(rules, metrics, peaks, device, kernel))
    found, matches, open_, gap = _diagnose_and_rank(rules, facts, target, predictor, kernel)
    gate, finish = _judge_work(rules, facts, matches, predictor, device)
    wanted = _list_gate_metrics(facts.values, gate)
    ask = choose_next_measurements(rules, matches, open_, facts, kernel, target, wanted)
    return {
        "kernel": kernel,
        **_NO_LAUNCH,
        "device": device,
        "gate": gate.gate,
        "evidence_level": (level := evidence_level(rules, metrics)),
        "conclusions": _build_conclusions(rules, f"{target}/{level}", facts.values),
        **build_outlook(rules, matches, predictor, facts.values, peaks or metrics, gap, finish),
        "diagnoses": _list_diagnoses(matches, open_, facts),
        "open_count": len(found.open_rows),
        "suppressed": found.suppressed,
        "measure_next": ask.rows,
        "ncu_rules": [],
        "notes": _list_notes(rules, matches, facts.values, device, found),
        "next": _list_next_steps(matches, gate, ask.step),
    }


def _walk(rules: CompiledRules, tree: str, facts: Facts) -> GateWalk:
    return walk_gate_tree(rules["trees"][tree], facts)


def _judge_work(
    rules: CompiledRules,
    facts: Facts,
    matches: list[BottleneckMatch],
    predictor: Predictor,
    device: str | None,
) -> tuple[GateWalk, Finish | None]:
    """Return the gate, that of a kernel at its roof where counters tell so, and why they do."""
    gate = _walk(rules, PERFORMANCE_GATE, facts)
    finish = describe_finish(rules, facts.values, matches, predictor, gate.gate, device)
    if finish is None or finish["verdict"] != "stop" or gate.gate["verdict"] == "done":
        return gate, finish
    leaf = rules["trees"][PERFORMANCE_GATE]["leaves"][_AT_ROOF]
    ended: Gate = {"id": _AT_ROOF, "verdict": "done", "because": finish["because"]}
    do = tuple(leaf["do"])
    return gate._replace(gate=ended, do=do, comes_first=True, path=()), finish


def _compare_metrics(
    rules: CompiledRules,
    measured: Mapping[str, float],
    peaks: Mapping[str, float] | None,
    device: str | None,
    kernel: str,
) -> Facts:
    """Return measured and derived metrics, with the outcome of every comparison."""
    named = _add_product_name(measured, kernel)
    known = complete_metrics(rules, {**(peaks or {}), **named}, device)
    return evaluate_comparisons(rules["comparisons"], known)


def _add_product_name(metrics: Mapping[str, float], kernel: str) -> Mapping[str, float]:
    """Return the metrics, with that of a product of matrices where the kernel's name says so."""
    is_named = _PRODUCT_NAME.search(strip_kernel_signature(kernel)) is not None
    return {"product_name": 1.0, **metrics} if is_named else metrics


def find_library(rules: CompiledRules, kernel: str) -> LibraryRow | None:
    """Return the library that a kernel comes from, by its name; None for a kernel of one's own."""
    if not kernel:
        return None
    return next((row for row in rules["libraries"] if re.search(row["name_pattern"], kernel)), None)


def _diagnose_and_rank(
    rules: CompiledRules,
    facts: Facts,
    target: str,
    predictor: Predictor,
    kernel: str,
) -> tuple[DiagnosisResult, list[BottleneckMatch], OpenBottlenecks, Gap | None]:
    found = diagnose(rules, facts, target, predictor, find_library(rules, kernel))
    matches = rank_matches(found.matches, rules["effort"])
    open_ = rank_open_bottlenecks(found.open_rows, facts, _MAX_OPEN_CONSIDERED)
    change = _walk(rules, RESTRUCTURING, facts)
    gap = find_gap(matches, predictor, facts.values, change)
    names = _list_structural(gap, change, matches)
    return found, put_structure_first(matches, names), open_, gap


def _list_structural(
    gap: Gap | None, change: GateWalk, matches: list[BottleneckMatch]
) -> Sequence[str]:
    """Return the changes that come first: where others are faster, not where a floor is lower.

    And those for a product without a tile that memory binds: it need not read so often.
    """
    if gap and gap["against"] == "reference":
        return gap["fixes"]
    is_bound = bool(matches) and matches[0].row["group"] == "memory-traffic"
    return change.fixes if is_bound and change.gate["id"] == _TILE else ()


def _list_diagnoses(
    matches: list[BottleneckMatch], open_: OpenBottlenecks, facts: Facts
) -> list[Diagnosis]:
    """Return every match, then the unknown bottlenecks with the most true comparisons."""
    matching = {finding.row["id"] for finding in matches}
    return [
        *(_keep_ruled_out(finding.diagnosis, matching) for finding in matches),
        *(build_unknown_diagnosis(row, facts) for row in open_.rows[:_MAX_OPEN_LISTED]),
    ]


def _keep_ruled_out(diagnosis: Diagnosis, matching: Container[str]) -> Diagnosis:
    """Return it without look-alikes that match by another condition than the one that was tried."""
    kept = [one for one in diagnosis["ruled_out"] if one["bottleneck"] not in matching]
    return {**diagnosis, "ruled_out": kept}


def _list_notes(
    rules: CompiledRules,
    matches: list[BottleneckMatch],
    known: Mapping[str, float],
    device: str | None,
    found: DiagnosisResult,
) -> list[str]:
    """Return notes: a library's kernel, the launch's next step, missing counters, a held clock."""
    library = found.library
    if library is not None:
        return [
            f"a kernel of {library['title']}: change the call, not the kernel: {library['advice']}"
        ]
    limits = [x.row["id"] for x in matches if x.row["id"].startswith("occupancy-limited-")]
    step = describe_next_step(rules, known, device) if limits else None
    notes = [f"next step of the launch: {step}"] if step else []
    if matches and matches[0].row["group"] == "memory-traffic" and is_likely_product(known):
        notes += [] if "algorithmic_bytes" in known else [_ASK_BYTES]
    fewer = known.get("doubled_block_register_count")
    if step and fewer and "occupancy-limited-registers" in limits:
        notes = [f"{notes[0]}; the gain supposes {fewer:.0f} and no spills: what-if tells of those"]
    if len(found.undecided) > _MANY_UNDECIDED:
        named = ", ".join(found.undecided[:_MANY_UNDECIDED])
        more = len(found.undecided) - _MANY_UNDECIDED
        notes.append(f"counters are missing, so these are open: {named} and {more} more")
    if (clock := find_held_clock(rules["time_model"], known)) is not None:
        share = f"{clock:.0%} of the highest (--clock-control none does not)"
        notes.append(f"the profiler held the SM clock at {share}; times are for the full clock")
    return notes


def build_recommendation(rules: CompiledRules, answers: Iterable[KernelAnswer]) -> Recommendation:
    """Return the answers of one call with the version of the knowledge."""
    return {"kernels": list(answers), "knowledge": rules["knowledge"]}


def evidence_level(rules: CompiledRules, metrics: Mapping[str, float]) -> Level:
    """Return the highest level that one of the metrics belongs to, L0 if none does."""
    rows = rules["metrics"]
    present = {rows[n]["level"] for n, value in metrics.items() if n in rows and isfinite(value)}
    return max((level for level in EVIDENCE_LEVELS if level in present), default="L0")


def _build_conclusions(rules: CompiledRules, level: str, known: Mapping[str, float]) -> Conclusions:
    """Return the conclusions of an evidence level, split by whether their metrics are known."""
    can: list[str] = []
    cannot: list[str] = []
    limits = rules["levels"].get(level, {"can": [], "cannot": []})
    for claim in limits["can"]:
        say, needs = claim["say"], claim["needs"]
        lacking = [name for name in needs if name not in known]
        if lacking:
            cannot.append(f"{say}; that takes {', '.join(lacking)}")
        else:
            can.append(f"{say} ({', '.join(f'{n} {known[n]:.4g}' for n in needs)})")
    return {"can": can, "cannot": [*cannot, *limits["cannot"]]}


def _list_gate_metrics(known: Mapping[str, float], gate: GateWalk) -> list[str]:
    """Return the metrics to measure first: the speedup, if the gate is undecided without it."""
    undecided = gate.path and gate.path[-1][1] == "unknown"
    return ["speedup"] if undecided and "speedup" not in known else []


def _list_next_steps(
    matches: list[BottleneckMatch], gate: GateWalk, measure: Step | None
) -> list[Step]:
    """Return the next steps: one change to make, or else a command.

    A stop has no change, nor has a cause that is not more than a guess.
    """
    best = matches[0] if matches else None
    verdict = gate.gate["verdict"]
    first: list[Step] = [Sentence(text) for text in gate.do]
    if verdict == "done":
        return first
    is_sure = best is not None and best.diagnosis["confidence"] >= LEAST_SURE
    if verdict == "stop" or best is None or not best.diagnosis["fixes"] or not is_sure:
        return [*first[:1], *([measure] if measure else []), *first[1:]]
    steps = first if gate.comes_first else []
    return [*steps, *list_change(best.diagnosis["fixes"][0], best.diagnosis["falsifier"])]


def list_change(
    fix: Advice, falsifier: Expectation | None, place: ChangePlace | None = None
) -> list[Step]:
    """Return the steps that make a change and judge it."""
    expect = falsifier["expect"] if falsifier else _FASTER
    if falsifier and falsifier["metric"] not in _TIMES:
        expect = f"it is faster and {expect}"
    return [FixEdit(fix["id"], fix["do"], place), KeepCondition(expect)]
