"""Compares two reports of a kernel or two attempts: time, budget, what binds now, samples."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.advice.apply_history import find_attempt_of
from kernelkb.actions.advice.recommend_report import answer_launch, iter_plausible_metrics
from kernelkb.actions.comparison.compare_calls import (
    NOISE,
    compare_levels,
    compare_residency,
    compare_traces,
    pair_renamed,
    total_call,
)
from kernelkb.actions.comparison.compare_lines import (
    LaunchSamples,
    compare_budgets,
    compare_samples,
    find_other_work,
    read_launch_samples,
)
from kernelkb.actions.history.outcomes import read_changed_sources
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.hardware import find_reported_gpu
from kernelkb.actions.project.profile_reports import (
    IndexedLaunch,
    ReportChoice,
    compile_pattern,
    find_report,
    match_names,
    pair_launches,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.conditions import satisfies
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.parse_metric import find_device
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.source_lines import find_lines
from kernelkb.decide.time_model import find_held_clock
from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.model.answers.recommendation import Diagnosis, KernelAnswer
from kernelkb.model.answers.report_comparison import (
    CallChange,
    FalsifierCheck,
    GainVerdict,
    KernelComparison,
    LaunchSide,
    NowBinding,
    PredictionCheck,
    ReportComparison,
    TimeVerdict,
)
from kernelkb.model.records.history import Attempt, Measurement, PairwiseComparison
from kernelkb.profiles.launch import RawName, list_raw_names
from kernelkb.profiles.report import is_binary_report, is_timeline, read_report
from kernelkb.record.attempt_store import AttemptStore, open_attempts
from kernelkb.record.attempt_tree import (
    AdviceCheck,
    AttemptDifference,
    AttemptNode,
    MeasuredDifference,
    build_tree,
)
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.store import open_store
from kernelkb.sass.counters import SourceCounters

_SAYS: dict[tuple[bool, TimeVerdict | None], str] = {
    (True, "fell"): "held, and the time fell, so the diagnosis was right",
    (True, "same"): "held, but the time is the same: this was not what limited the kernel",
    (True, "rose"): "held, but the time rose: the change costs more than it gives",
    (True, None): "held; a report has no duration, so the diagnosis is not confirmed",
    (False, "fell"): "did not hold, though the time fell: something else made it faster",
    (False, "same"): "did not hold, and the time is the same: revert the change",
    (False, "rose"): "did not hold, and the time rose: revert the change",
    (False, None): "did not hold",
}

MAX_KERNELS = 5
"""Most kernels that are compared at once, those whose time changed most."""
_MAX_WITH_SAMPLES = 3
"""Most kernels whose samples are compared: each launch takes a run of the disassembler."""
_TOO_MANY = f"only the first {_MAX_WITH_SAMPLES} kernels get them; --kernel picks others"
_BUILD_FACTS = (
    "register_count", "spill_store_bytes", "stack_bytes", "static_shared_bytes",
    "dynamic_shared_bytes",
)  # fmt: skip
"""What the compiler says of a build, as records of benches hold it."""
_MIN_CLOCK_CHANGE = 0.08
"""Least difference of two SM clocks that is told, as a share of the highest clock (judgement)."""
_INTERVAL = RawName("sampling interval", ("smsp__pcsamp_interval_cycles",), 1.0)
_NO_SAMPLES_IN_TABLES = "a CSV page holds no samples by instruction; a .ncu-rep file does"


def judge_time(before_us: float | None, now_us: float | None) -> TimeVerdict | None:
    """Return whether the duration changed by more than profiles of one kernel differ."""
    if not before_us or not now_us:
        return None
    if now_us < before_us * (1 - NOISE):
        return "fell"
    return "rose" if now_us > before_us * (1 + NOISE) else "same"


def check_falsifier(
    answer: KernelAnswer, known_now: Mapping[str, float], time: TimeVerdict | None
) -> FalsifierCheck | None:
    """Return whether the falsifier of the first diagnosis that has one holds now.

    Args:
        answer: For the old report.
        known_now: Measured and derived metrics of the new one.
        time: Whether the duration fell.
    """
    for diagnosis in list_matches(answer):
        expected = diagnosis["falsifier"]
        if expected is None:
            continue
        now = known_now.get(expected["metric"])
        held = None if now is None else satisfies(now, expected["op"], expected["value"])
        lacks = f"cannot be checked: the new report lacks {expected['metric']}"
        return {
            "bottleneck": diagnosis["bottleneck"],
            "fix": diagnosis["fixes"][0]["id"] if diagnosis["fixes"] else None,
            "metric": expected["metric"],
            "op": expected["op"],
            "value": expected["value"],
            "before": expected["before"],
            "now": now,
            "held": held,
            "time": time,
            "says": lacks if held is None else _SAYS[held, time],
        }
    return None


def check_prediction(answer: KernelAnswer, measured: float | None) -> PredictionCheck | None:
    """Return what the first change was told to give for the old report, and what was got.

    Args:
        answer: For the old report.
        measured: Its duration over that of the new one.
    """
    for diagnosis in list_matches(answer)[:1]:
        fix = next(iter(diagnosis["fixes"]), None)
        told = fix["predicted_speedup"] if fix else None
        if fix and told and measured:
            return {
                "bottleneck": diagnosis["bottleneck"],
                "fix": fix["id"],
                "predicted": told,
                "measured": measured,
                "verdict": judge_gain(measured, (told["low"], told["high"])),
            }
    return None


def judge_gain(measured: float, predicted: tuple[float, float]) -> GainVerdict:
    """Return where a measured gain is, in its predicted interval from low to high."""
    low, high = predicted
    if measured < low:
        return "below"
    return "above" if measured > high else "inside"


def list_matches(answer: KernelAnswer) -> list[Diagnosis]:
    """Return the diagnoses that match, the first first."""
    return [one for one in answer["diagnoses"] if one["verdict"] == "matches"]


def describe_binding(
    rules: CompiledRules,
    before: KernelAnswer,
    now: KernelAnswer,
    counters: SourceCounters | None,
) -> NowBinding:
    """Return the first diagnosis of the new report, with its fix and its lines.

    Args:
        rules: The compiled rules.
        before: The answer for the old report.
        now: That for the new one.
        counters: Of the new launch by instruction; None without.
    """
    best = next(iter(list_matches(now)), None)
    fix = best["fixes"][0] if best and best["fixes"] else None
    name = best["bottleneck"] if best else None
    lines = None
    if name is not None and counters is not None:
        lines = find_lines(counters, rules["line_evidence"].get(name, []))
    largest = max(now["time"], key=lambda row: row["share"], default=None)
    unnamed = f"the largest part of the time is {largest['title']}" if largest else ""
    return {
        "gate": now["gate"]["verdict"],
        "because": now["gate"]["because"],
        "bottleneck": name,
        "was_before": name in {one["bottleneck"] for one in list_matches(before)},
        "confidence": best["confidence"] if best else 0.0,
        "predicted_speedup": best["predicted_speedup"] if best else None,
        "fix": fix["id"] if fix else None,
        "do": fix["do"] if fix else unnamed,
        "lines": lines,
    }


class _Side(NamedTuple):
    """A launch of one report with what follows from its metrics."""

    choice: ReportChoice
    one: IndexedLaunch
    answer: KernelAnswer
    known: dict[str, float]

    @property
    def duration_us(self) -> float | None:
        return self.one.duration_us or None


def compare_reports(
    before: ReportChoice, now: ReportChoice, kernel_pattern: str | None = None
) -> ReportComparison:
    """Return what changed in a call of one or several kernels, and in each that both reports hold.

    Args:
        before: The report from before the change.
        now: That from after it.
        kernel_pattern: A regular expression; kernels whose name does not match are left out.

    Raises:
        KbError: A file is no report, or no kernel matches.
        BadValueError: An invalid regular expression, or a launch that a report does not hold.
    """
    if is_timeline(before.path) and is_timeline(now.path):
        call = compare_traces(before.path, now.path)
        return {"call": call, "kernels": [], "only_before": [], "only_now": [], "left_out": 0}
    rules = load_compiled_rules()
    held = {path: _read_launches(rules, path) for path in {before.path, now.path}}
    old, new = (
        _choose_launches(choice, held[choice.path], kernel_pattern) for choice in (before, now)
    )
    paired = pair_renamed(pair_launches(old, new))
    call = total_call(paired, old, new)
    sides = [
        (_answer_side(rules, before, one), _answer_side(rules, now, other))
        for one, other in _order_by_move(paired.pairs, call)[:MAX_KERNELS]
    ]
    samples = _read_samples([side for pair in sides for side in pair])
    return {
        "call": call,
        "kernels": [
            _compare_sides(rules, pair, (samples[2 * at], samples[2 * at + 1]))
            for at, pair in enumerate(sides)
        ],
        "only_before": [_describe_launch(before, one) for one in paired.only_before],
        "only_now": [_describe_launch(now, one) for one in paired.only_now],
        "left_out": len(paired.pairs) - len(sides),
    }


def _order_by_move(
    pairs: Sequence[tuple[IndexedLaunch, IndexedLaunch]], call: CallChange
) -> list[tuple[IndexedLaunch, IndexedLaunch]]:
    """Return pairs of launches in the order of their kernels, the longest of each kernel first."""
    places = {name: at for at, row in enumerate(call["kernels"]) for name in row["before"]}
    return sorted(pairs, key=lambda pair: (places[pair[0].name], -pair[0].duration_us))


def _read_launches(rules: CompiledRules, path: Path) -> list[IndexedLaunch]:
    wanted = [*list_raw_names(rules), _INTERVAL]
    return [
        IndexedLaunch(at, launch, launch.metrics.pop(_INTERVAL.metric, None))
        for at, launch in enumerate(read_report(path, wanted, find_cuda_tool("ncu")))
    ]


def _choose_launches(
    choice: ReportChoice, launches: list[IndexedLaunch], kernel_pattern: str | None
) -> list[IndexedLaunch]:
    if choice.launch is not None:
        last = max(choice.launch, *choice.others, 0)
        if last >= len(launches):
            raise BadValueError(
                f"{choice.path} holds {len(launches)} launches, so #{last} is none of them; the "
                f"last is #{len(launches) - 1}"
            )
        launches = [one for one in launches if choice.holds(one.at)]
    pattern = compile_pattern(kernel_pattern)
    names = match_names(pattern, {one.launch.kernel for one in launches})
    if not names:
        known = ", ".join(dict.fromkeys(one.name for one in launches[:8]))
        raise KbError(f"no kernel in {choice.path} matches {pattern.pattern!r}; it holds {known}")
    return [one for one in launches if one.launch.kernel in names]


def _answer_side(rules: CompiledRules, choice: ReportChoice, one: IndexedLaunch) -> _Side:
    answer = answer_launch(rules, one.launch, one.at, {}, None)
    sound = dict(iter_plausible_metrics(rules, one.launch, []))
    peaks = read_peak_metrics(answer["device"])
    described = find_reported_gpu(rules, one.launch).rules
    known = complete_metrics(described, {**peaks, **sound}, answer["device"])
    return _Side(choice, one, answer, known)


def _read_samples(sides: Sequence[_Side]) -> list[LaunchSamples]:
    """Return the samples of each side, in pairs of before and now, or why there are none."""
    reasons = [
        _TOO_MANY
        if at >= 2 * _MAX_WITH_SAMPLES
        else (None if is_binary_report(side.choice.path) else _NO_SAMPLES_IN_TABLES)
        for at, side in enumerate(sides)
    ]
    held = [side for side, reason in zip(sides, reasons, strict=True) if reason is None]
    found = iter(read_launch_samples([(side.choice.path, side.one.at) for side in held]))
    return [LaunchSamples(None, reason) if reason else next(found) for reason in reasons]


def _compare_sides(
    rules: CompiledRules, pair: tuple[_Side, _Side], samples: tuple[LaunchSamples, LaunchSamples]
) -> KernelComparison:
    before, now = pair
    durations = before.duration_us, now.duration_us
    ratio = round(durations[0] / durations[1], 4) if durations[0] and durations[1] else None
    counted = [side.counters for side in samples]
    other = find_other_work(before.one.launch.metrics, now.one.launch.metrics, counted)
    notes = _list_notes(rules, before, now, samples)
    return {
        "before": _describe_launch(before.choice, before.one),
        "now": _describe_launch(now.choice, now.one),
        "ratio": ratio,
        "time": compare_budgets(before.answer["time"], now.answer["time"], durations),
        "samples": compare_samples(counted[0], counted[1], durations)
        if counted[0] and counted[1]
        else None,
        "no_samples": next((side.reason for side in samples if side.reason), None),
        "levels": compare_levels(before.one.launch.metrics, now.one.launch.metrics),
        "launch": compare_residency(before.known, now.known),
        "prediction": None if other else check_prediction(before.answer, ratio),
        "falsifier": None
        if other
        else check_falsifier(before.answer, now.known, judge_time(*durations)),
        "binds": describe_binding(rules, before.answer, now.answer, counted[1]),
        "notes": [other, *notes] if other else notes,
    }


def _describe_launch(choice: ReportChoice, one: IndexedLaunch) -> LaunchSide:
    return {
        "report": str(choice.path),
        "launch": one.at,
        "name": one.name,
        "kernel": one.launch.kernel,
        "grid": one.launch.shape[0],
        "block": one.launch.shape[1],
        "device": one.launch.device,
        "duration_us": one.duration_us or None,
    }


def _list_notes(
    rules: CompiledRules,
    before: _Side,
    now: _Side,
    samples: tuple[LaunchSamples, LaunchSamples],
) -> list[str]:
    """Return what makes the two launches hard to compare."""
    one, other = before.one, now.one
    notes: list[str] = []
    if one.launch.device != other.launch.device:
        names = [side.launch.device or "unknown" for side in (one, other)]
        notes.append(f"two GPUs, {names[0]} before and {names[1]} now")
    clock = rules["time_model"]["clock"]
    clocks = before.known.get(clock), now.known.get(clock)
    if clocks[0] and clocks[1] and abs(clocks[1] - clocks[0]) > _MIN_CLOCK_CHANGE:
        notes.append(
            f"the SM clock was {clocks[0]:.0%} of the highest before and is {clocks[1]:.0%} now; "
            f"durations differ by that, too"
        )
    if any(find_held_clock(rules["time_model"], side.known) for side in (before, now)):
        notes.append("the profiler held the SM clock; shares of the time are for the full clock")
    if one.interval != other.interval and all(side.counters for side in samples):
        notes.append(
            f"sampled every {one.interval or 0:.0f} cycles before and every "
            f"{other.interval or 0:.0f} now; compare shares, not counts"
        )
    counted = [note for side in samples if side.counters for note in side.counters.notes]
    return [*notes, *dict.fromkeys(counted)]


def compare_measured(before: Measurement, after: Measurement) -> MeasuredDifference:
    """Return what is known to differ between two measurements besides their times.

    Args:
        before: A bench or profile.
        after: Another one.

    Raises:
        DatabaseError: The history cannot be read.
    """
    one, other = before.subject, after.subject
    with open_attempts(get_project_path(), writes=False) as store:
        states = [find_attempt_of(store, m.subject.kernel, m.id) for m in (before, after)]
    attempts = None
    if states[0] and states[1] and states[0] != states[1]:
        attempts = compare_attempts(states[0], states[1])
    places = [
        {"device": side.device, "judge": side.judge, **side.environment} for side in (one, other)
    ]
    names = sorted(places[0].keys() | places[1].keys())
    pairs = {name: (places[0].get(name, ""), places[1].get(name, "")) for name in names}
    return MeasuredDifference(
        environment={name: pair for name, pair in pairs.items() if pair[0] != pair[1]},
        flags=None if one.flags == other.flags else (one.flags, other.flags),
        files=tuple(
            name
            for name in sorted(one.sources.keys() | other.sources.keys())
            if one.sources.get(name) != other.sources.get(name)
        ),
        builds=_pair_changed(
            _list_build_facts(before.metrics), _list_build_facts(after.metrics), 0.0
        ),
        attempts=attempts,
    )


def _list_build_facts(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in _BUILD_FACTS if name in metrics}


def compare_attempts(a: str, b: str) -> AttemptDifference:
    """Return the source, time, code and metrics of two attempts side by side.

    Args:
        a: Id of the one before, or its beginning.
        b: Id of the one after.

    Raises:
        UnknownNameError: There is no such attempt.
        BadValueError: Several ids begin like this.
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    with open_attempts(project, writes=False) as store:
        one, other = store.find(a), store.find(b)
        tree = build_tree([one, other], store.list_events([one.id, other.id]))
        source = list(_iter_diff(store, one, other))
    before, after = tree.nodes[one.id], tree.nodes[other.id]
    codes = [_find_last(node, "code") for node in (before, after)]
    counts = [_find_last(node, "counts") or {} for node in (before, after)]
    profiles = _find_profiles(before, after)
    compared = _compare_benches(project, before, after)
    return AttemptDifference(
        before,
        after,
        source,
        None if one.flags == other.flags else (one.flags, other.flags),
        compared,
        None if None in codes else codes[0] == codes[1],
        _pair_changed(counts[0], counts[1], 0.0),
        _compare_profiles(project, profiles),
        _compare_lines(project, profiles),
        _check_advice(project, before, compared, profiles),
    )


def _check_advice(
    project: Path,
    before: AttemptNode,
    compared: PairwiseComparison | None,
    profiles: tuple[str, str] | None,
) -> AdviceCheck | None:
    """Return what the advice for a state promised and what came of it; None without advice."""
    advised = next((one.advised for one in reversed(before.events) if one.advised), None)
    if advised is None:
        return None
    ratio = compared.ratio if compared else None
    gain: GainVerdict | None = None
    if advised.predicted is not None and ratio is not None:
        gain = judge_gain(ratio, (advised.predicted[0], advised.predicted[2]))
    rule = _check_rule(project, advised.bottleneck, profiles, ratio) if profiles else None
    return AdviceCheck(advised, ratio, gain, rule)


def _check_rule(
    project: Path, bottleneck: str, profiles: tuple[str, str], ratio: float | None
) -> FalsifierCheck | None:
    """Return whether the falsifier of a cause, told from one profile, holds in another."""
    rules = load_compiled_rules()
    with open_store(project, writes=False) as store:
        old, new = store.get_many(profiles)
    device = find_device(rules["device_names"], old.subject.device)
    target, peaks = old.subject.target, read_peak_metrics(device)
    sides = [
        {name: value for name, value in one.metrics.items() if name in rules["metrics"]}
        for one in (old, new)
    ]
    told = recommend(rules, sides[0], target=target, device=device, peaks=peaks)
    named = [one for one in told["diagnoses"] if one["bottleneck"] == bottleneck]
    known = complete_metrics(rules, {**peaks, **sides[1]}, device)
    time = judge_time(ratio, 1.0) if ratio else None
    return check_falsifier({**told, "diagnoses": named}, known, time)


def _iter_diff(store: AttemptStore, before: Attempt, after: Attempt) -> Iterator[str]:
    """Yield the lines of a unified diff; a file that is alone on each side became the other."""
    changed = read_changed_sources(store, before, after)
    gone = [name for name in changed if name not in after.files]
    new = [name for name in changed if name not in before.files]
    if len(gone) == 1 == len(new):
        texts = changed[gone[0]][0], changed[new[0]][1]
        yield from _diff_texts(gone[0], new[0], texts)
    for name, texts in changed.items():
        if len(gone) != 1 or len(new) != 1 or name not in (*gone, *new):
            yield from _diff_texts(name, name, texts)


def _diff_texts(old: str, new: str, texts: tuple[str, str]) -> Iterator[str]:
    before, after = (text.splitlines() for text in texts)
    yield from difflib.unified_diff(before, after, f"a/{old}", f"b/{new}", lineterm="")


def _find_last(node: AttemptNode, field: str) -> object:
    return next((v for event in reversed(node.events) if (v := getattr(event, field))), None)


def _compare_benches(
    project: Path, before: AttemptNode, after: AttemptNode
) -> PairwiseComparison | None:
    benches = [
        (old, new)
        for new in reversed(after.events)
        if new.kind == "bench" and new.measurement
        for old in reversed(before.events)
        if old.kind == "bench"
        and old.measurement
        and (old.workload, old.device) == (new.workload, new.device)
    ]
    if not benches:
        return None
    with open_store(project, writes=False) as store:
        ids = [str(event.measurement) for event in benches[0]]
        return compute_comparison(*store.get_many(ids))


def _find_profiles(before: AttemptNode, after: AttemptNode) -> tuple[str, str] | None:
    """Return the records of the newest profiles of both; None where one has none."""
    found = []
    for node in (before, after):
        ids = [one.measurement for one in node.events if one.kind == "profile" and one.measurement]
        found.append(str(ids[-1]) if ids else None)
    return (found[0], found[1]) if found[0] and found[1] else None


def _compare_profiles(
    project: Path, profiles: tuple[str, str] | None
) -> dict[str, tuple[float, float]]:
    if profiles is None:
        return {}
    with open_store(project, writes=False) as store:
        old, new = store.get_many(profiles)
    return _pair_changed(old.metrics, new.metrics, 0.1)


def _compare_lines(project: Path, profiles: tuple[str, str] | None) -> ReportComparison | None:
    """Return what changed by resource, stall and line, where both profiles counted them."""
    reports = [find_report(project, one) for one in profiles or ()]
    if len(reports) < 2 or reports[0] is None or reports[1] is None:
        return None
    try:
        return compare_reports(ReportChoice(reports[0], None), ReportChoice(reports[1], None))
    except KbError:  # without the reader of reports
        return None


def _pair_changed(before: object, after: object, least: float) -> dict[str, tuple[float, float]]:
    """Return the numbers of both that differ by more than a share of the larger one."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {}
    if not before or not after:
        return {}
    pairs = {
        name: (float(before.get(name, 0.0)), float(after.get(name, 0.0)))
        for name in sorted(before.keys() | after.keys())
    }
    return {
        name: (old, new)
        for name, (old, new) in pairs.items()
        if abs(new - old) > least * max(abs(old), abs(new))
    }
