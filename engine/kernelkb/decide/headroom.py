"""Looks beyond the first fix: where the time goes, what binds next, how far it is to the floor."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Literal

from kernelkb.decide.derive import NEAR_FLOOR, binding_roof, find_nearest_ceiling
from kernelkb.decide.predict import FLOOR_ERROR, LEAST_GAIN
from kernelkb.decide.time_model import split_time

if TYPE_CHECKING:
    from kernelkb.decide.diagnose import BottleneckMatch, GateWalk
    from kernelkb.decide.predict import Prediction, Predictor
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.decide.time_model import KernelTime
    from kernelkb.model.answers.recommendation import (
        Ceiling,
        ChainStep,
        CombinedSpeedup,
        Finish,
        Gap,
        Gate,
        Headroom,
        JointCure,
        KernelTimeline,
        Outlook,
        PracticalShares,
        RestPart,
        TimeShare,
    )

_MIN_SHARE = 0.02
"""Shares below are summed as other."""
_MIN_STEP = 1.05
_MAX_STEPS = 4
_MIN_GAP = 1.5
"""Factor between a gap and what the fixes explain, above which the rest is named."""
_HIDDEN_FACTOR = 1.25
"""Factor by which two fixes together exceed the product of both alone, if flaws hide each other."""
_MAX_PAIRED = 8
"""Causes among which pairs are looked for, the best first."""
_GROUP_TITLES = {"memory": "memory", "l1": "L1", "compute": "computation"}
_UNITS = {
    "memory": "L2 and device memory",
    "l1": "L1 of the SMs",
    "compute": "pipes of the SMs",
    "launch": "the launch",
    "fill": "SMs",
    "unexplained": "",
}
"""Where the time of a part is spent; of a reason to wait, in the warps."""
_UNNAMED = "l2-other"
"""The busiest part of L2, which may be one without a counter of its own."""
_SAME_USE = 0.85
"""Share of its use from which a resource with a counter names the part (chosen)."""
_OTHER_TITLES = {"launch": "launch", "fill": "SMs without work", "unexplained": "unexplained"}


def build_outlook(
    rules: CompiledRules,
    matches: list[BottleneckMatch],
    predictor: Predictor,
    known: Mapping[str, float],
    measured: Mapping[str, float],
    gap: Gap | None,
    finish: Finish | None,
) -> Outlook:
    """Return all of it: what all fixes give, in which order, and what is left.

    Args:
        rules: The compiled rules.
        matches: The causes, ranked.
        predictor: Prices fixes.
        known: Measured and derived metrics.
        measured: The measured ones; a value that is not finite was not measured.
        gap: See ``find_gap``.
        finish: See ``describe_finish``.
    """
    together = _combine_matches(matches, predictor)
    is_any_told = any(one.diagnosis["predicted_speedup"] for one in matches)
    return {
        "headroom": _build_headroom(known),
        "finish": finish,
        "combined_speedup": _tell_combined(matches, together, predictor) if is_any_told else None,
        "joint": find_joint_cure(rules, matches, predictor),
        "chain": build_chain(matches, predictor),
        "at_most": _bound_gains(matches, together, predictor, known),
        "gap": gap,
        "time": build_time_shares(rules, predictor),
        "peaks": None if predictor.now is None else _name_peaks(known, measured),
        "change": None,
        "timeline": None,
        "accesses": [],
        "similar": [],
    }


def _bound_gains(
    matches: list[BottleneckMatch],
    together: Prediction | None,
    predictor: Predictor,
    known: Mapping[str, float],
) -> float | None:
    """Return the speedup at which useful work binds, or what changes are told to give.

    It is no less than the floor of the algorithm allows and a reference reaches. Where the work is
    not known there is no bound: a change may save traffic and arithmetic that counters take for
    useful, and a tenth of the measured gains did.
    """
    if predictor.at_most is None or "attainable_speedup" not in known:
        return None
    told = [m.prediction.speedup for m in matches if m.prediction is not None]
    gains = [predictor.at_most, *told, known["attainable_speedup"] * FLOOR_ERROR]
    if 0 < (speedup := known.get("speedup", 0.0)) < 1:
        gains.append(1 / speedup)
    if together is not None:
        gains.append(together.speedup)
    return round(max(gains), 3)


def _name_peaks(known: Mapping[str, float], measured: Mapping[str, float]) -> PracticalShares:
    """Return the practical peaks of the model, and where they are from."""
    source: Literal["measured", "catalogue", "assumed"] = "assumed"
    if isfinite(measured.get("dram_practical_share", nan)):
        source = "measured"
    elif "device.achievable_dram_share" in known:
        source = "catalogue"
    shares = known["dram_practical_share"], known["l2_practical_share"]
    return {"source": source, "dram": round(shares[0], 4), "l2": round(shares[1], 4)}


def build_time_shares(rules: CompiledRules, predictor: Predictor) -> list[TimeShare]:
    """Return where the time goes, largest share first; the shares sum to 1. Empty if unknown."""
    now = predictor.now
    if now is None:
        return []
    titles = {row["id"]: row["title"] for row in rules["time_model"]["resources"]}
    rows: list[TimeShare] = []
    other = 0.0
    for name, share in split_time(now).items():
        if name in now.groups:
            busiest = _name_busiest(now, name)
            title = f"{_GROUP_TITLES.get(name, name)}: {titles[busiest]}"
        else:
            title = _OTHER_TITLES.get(name, f"waiting: {name}")
        if share < _MIN_SHARE and name != "unexplained":
            other += share
        elif share > 0:
            unit = _UNITS.get(name, "warps")
            part, line = round(share, 4), None
            rows.append({"part": name, "title": title, "share": part, "unit": unit, "line": line})
    rows.sort(key=lambda row: -row["share"])
    if other > 0:
        part, line = round(other, 4), None
        rows.append({"part": "other", "title": "other", "share": part, "unit": "", "line": line})
    return rows


def _name_busiest(now: KernelTime, group: str) -> str:
    """Return the resource that a group's time is named by: one with a counter, if it comes near."""
    use = now.use
    busiest = max(now.groups[group], key=lambda name: use[name])
    if busiest != _UNNAMED:
        return busiest
    named = [name for name in now.groups[group] if name != _UNNAMED]
    nearest = max(named, key=lambda name: use[name], default=busiest)
    return nearest if use[nearest] >= _SAME_USE * use[busiest] else busiest


def build_chain(matches: list[BottleneckMatch], predictor: Predictor) -> list[ChainStep]:
    """Return the fixes one after another: after each, the one that then gives most."""
    left = [(m, m.prediction) for m in matches if m.prediction and m.diagnosis["predicted_speedup"]]
    steps: list[ChainStep] = []
    done: list[Prediction] = []
    total = 1.0
    while left and len(steps) < _MAX_STEPS:
        ranked = left[:1] if not steps else left
        match, prediction = max(
            ranked, key=lambda pair: predictor.predict_together([*done, pair[1]]).speedup
        )
        reached = predictor.predict_together([*done, prediction]).speedup
        if reached < total * _MIN_STEP:
            break
        done.append(prediction)
        left = [pair for pair in left if pair[0] is not match]
        told = round(prediction.speedup, 3)
        fix = next(
            fix["id"]
            for fix in match.diagnosis["fixes"]
            if (gain := fix["predicted_speedup"]) and gain["point"] == told
        )
        steps.append(
            {
                "bottleneck": match.row["id"],
                "fix": fix,
                "step_speedup": round(reached / total, 3),
                "total_speedup": round(reached, 3),
            }
        )
        total = reached
    return steps


def find_joint_cure(
    rules: CompiledRules, matches: list[BottleneckMatch], predictor: Predictor
) -> JointCure | None:
    """Return the flaws that hide each other: cured together they give far more than each alone.

    Either one fix cures both, or the fixes of two diagnoses need each other.
    """
    for match in matches[:1]:
        parts = rules["effects"][match.prediction.effect]["parts"] if match.prediction else []
        alone = [found for name in parts if (found := predictor.predict_effect(name))]
        if match.prediction and len(alone) > 1:
            titles = [rules["effects"][found.effect]["title"] for found in alone]
            return _build_joint(titles, alone, match.prediction, predictor)
    return _find_hidden_pair(matches, predictor)


def _find_hidden_pair(matches: list[BottleneckMatch], predictor: Predictor) -> JointCure | None:
    """Return the pair of the best causes whose fixes need each other most; None without one."""
    priced = [(m.row["id"], m.prediction) for m in matches if m.prediction and m.prediction.change]
    priced = priced[:_MAX_PAIRED]
    best: JointCure | None = None
    for index, (first, one) in enumerate(priced):
        for second, other in priced[index + 1 :]:
            together = predictor.predict_together([one, other])
            if together.speedup < one.speedup * other.speedup * _HIDDEN_FACTOR:
                continue
            if best is None or together.speedup > best["predicted_speedup"]["point"]:
                best = _build_joint([first, second], [one, other], together, predictor) or best
    return best


def _build_joint(
    parts: list[str], alone: list[Prediction], together: Prediction, predictor: Predictor
) -> JointCure | None:
    interval = predictor.tell_interval(together)
    if interval is None:
        return None
    return {
        "parts": parts,
        "alone": [round(found.speedup, 3) for found in alone],
        "predicted_speedup": interval,
    }


def find_gap(
    matches: list[BottleneckMatch],
    predictor: Predictor,
    known: Mapping[str, float],
    change: GateWalk,
) -> Gap | None:
    """Return what is left between this kernel and its reference or floor after all fixes.

    Args:
        matches: The causes.
        predictor: Predicts for the launch.
        known: Measured and derived metrics.
        change: The leaf of the tree that names a change of structure.

    Returns:
        None without a profile or anything to compare with, and where the fixes explain most of
        the gap.
    """
    if predictor.now is None:
        return None
    explained = _explain(matches, _combine_matches(matches, predictor))
    against, ratio = _measure_gap(known)
    if not explained * _MIN_GAP <= ratio < inf:
        return None
    excess = _list_excess(known)
    rest = ratio / explained
    target = "than the reference" if against == "reference" else "than its floor"
    named = f"named causes explain {explained:.3g}x" if explained > 1 else "no named cause explains"
    return {
        "against": against,
        "ratio": round(ratio, 3),
        "explained": round(explained, 3),
        "rest": round(rest, 3),
        "excess": {name: round(value, 3) for name, value in excess.items()},
        "because": f"{ratio:.3g}x slower {target}, {named}: the rest is structural: "
        f"{change.gate['because']}",
        "fixes": list(change.fixes),
        "steps": list(change.do),
    }


def _measure_gap(known: Mapping[str, float]) -> tuple[Literal["reference", "floor"], float]:
    """Return what the time is compared with, and how many times as long it is."""
    speedup = known.get("speedup")
    if speedup is not None and 0 < speedup < 1:
        return "reference", 1 / speedup
    return "floor", known.get("attainable_speedup", 0.0)


def _list_excess(known: Mapping[str, float]) -> dict[str, float]:
    """Return the bytes at each level of memory over those of the algorithm."""
    needed = known.get("algorithmic_bytes")
    if not needed:
        return {}
    sectors = {
        "l1": known.get("load_sector_count", 0.0) + known.get("store_sector_count", 0.0),
        "l2": known.get("l2_sector_count", 0.0),
        "dram": known.get("dram_bytes", 0.0) / 32,
    }
    excess = {level: count * 32 / needed for level, count in sectors.items() if count}
    return {level: factor for level, factor in excess.items() if factor < inf}


def _build_headroom(known: Mapping[str, float]) -> Headroom | None:
    if not {"floor_us", "kernel_us", "attainable_speedup"} <= known.keys():
        return None
    roof = binding_roof(known)
    holds = roof is not None and roof.floor_us == known["floor_us"]
    return {
        "bound": roof.name if roof and holds else None,
        "floor_us": known["floor_us"],
        "measured_us": known["kernel_us"],
        "attainable_speedup": known["attainable_speedup"],
    }


def _combine_matches(matches: list[BottleneckMatch], predictor: Predictor) -> Prediction | None:
    """Return the predicted speedup of all matches' fixes together; None below two."""
    priced = [m.prediction for m in matches if m.prediction is not None]
    return predictor.predict_together(priced) if len(priced) > 1 else None


def _tell_combined(
    matches: list[BottleneckMatch], together: Prediction | None, predictor: Predictor
) -> CombinedSpeedup | None:
    told = predictor.tell_interval(together)
    if told is None:
        return None
    return {**told, "bottlenecks": [m.row["id"] for m in matches if m.prediction is not None]}


def _explain(matches: list[BottleneckMatch], together: Prediction | None) -> float:
    """Return the predicted speedup of all fixes together, at least 1."""
    single = [m.prediction.speedup for m in matches if m.prediction is not None]
    return max(1.0, together.speedup if together else 1.0, *single)


_NO_CHANGE = f"no change is told to gain {LEAST_GAIN:g}x"
_STOP_SHARE = 0.8
"""Share of the ceiling of memory from which a kernel may be finished (fitted there)."""
_STOP_FLOOR = 1.25
"""Time over that of the bytes that must move up to which it may be (fitted there)."""
_STOP_TENSOR = 0.9
"""The same share of the tensor pipe (chosen: there are few such kernels)."""
_STOP_LAUNCH = 0.87
"""Share of the time that an empty kernel takes, from which nothing can gain 1.15x."""
PRODUCT_LIKELY = 0.67
"""Likeness to a product of matrices from which its traffic counts as more than it needs: the
threshold product-likely, which a test compares."""
_PARITY = 0.95
"""Speedup over the reference below which another kernel shows that this one is not finished."""
_LEAST_PART = 0.005
"""Share of the time from which a part of the rest is told."""
_MOST_PARTS = 4


def describe_finish(
    rules: CompiledRules,
    known: Mapping[str, float],
    matches: list[BottleneckMatch],
    predictor: Predictor,
    gate: Gate,
    device: str | None,
) -> Finish | None:
    """Return whether a kernel near its floor is finished; None for others, and without a profile.

    Args:
        rules: The compiled rules, with the ceilings that are shipped.
        known: Measured and derived metrics, and bandwidths that were measured on this machine.
        matches: The causes, ranked.
        predictor: Of the launch.
        gate: Its verdict; a stop for a wrong result, or a ratio, comes first.
        device: Id of the GPU; None if unknown.
    """
    us = known.get("profiled_us") or 0.0
    is_asked = predictor.now is not None and us > 0 and gate["verdict"] != "stop"
    ceiling = find_nearest_ceiling(rules, known, us, device) if is_asked else None
    if ceiling is None or not _is_near(ceiling, known):
        return None
    floor_us, needed = _find_floor(known, ceiling, us), known.get("algorithmic_bytes")
    needed = needed if ceiling["resource"] == "memory" else None
    verdict, because = _judge_finish(known, matches, ceiling, us / floor_us)
    if gate["verdict"] == "done" and verdict == "open":
        verdict, because = "stop", gate["because"]
    return {
        "verdict": verdict,
        "because": because,
        "needed_bytes": needed,
        "arrays": {},
        "moved": _count_moved(known),
        "ceiling": ceiling,
        "floor_us": round(floor_us, 3),
        "measured_us": us,
        "rest": _list_rest(rules, predictor, us, floor_us, ceiling),
        "waits_at": None,
    }


def is_likely_product(known: Mapping[str, float]) -> bool:
    """Return whether name or counters show a product of matrices, whose traffic a tile lowers."""
    return known.get("product_likeness", 0.0) >= PRODUCT_LIKELY


def _is_near(ceiling: Ceiling, known: Mapping[str, float]) -> bool:
    """Return whether it is near a ceiling with its work: what it moves in L2 may be none."""
    far_from_floor = known.get("attainable_speedup", 1.0) > NEAR_FLOOR
    return ceiling["reached"] * NEAR_FLOOR >= 1 and not (
        ceiling["resource"] == "l2" and far_from_floor
    )


def _count_moved(known: Mapping[str, float]) -> dict[str, float]:
    """Return the bytes that moved at each level that was counted."""
    levels = {"dram_read": "dram_read_bytes", "dram_write": "dram_write_bytes"}
    moved = {level: known[name] for level, name in levels.items() if name in known}
    if "l2_sector_count" in known:
        moved["l2"] = known["l2_sector_count"] * 32
    return {level: amount for level, amount in moved.items() if isfinite(amount)}


def _find_floor(known: Mapping[str, float], ceiling: Ceiling, us: float) -> float:
    """Return the time in us that the work takes at the ceiling."""
    needed = known.get("algorithmic_bytes")
    if ceiling["resource"] == "memory" and needed:
        return needed / ceiling["rate"] / 1e3
    return us * min(1.0, ceiling["reached"])


def _judge_finish(
    known: Mapping[str, float],
    matches: list[BottleneckMatch],
    ceiling: Ceiling,
    ratio: float,
) -> tuple[Literal["stop", "stop-if", "change", "open"], str]:
    """Return the verdict on a kernel near a ceiling, with its reason.

    Args:
        known: Measured and derived metrics.
        matches: The causes, ranked.
        ceiling: The one that it is near.
        ratio: Time over that at the ceiling of what must be done.
    """
    resource, reached = ceiling["resource"], ceiling["reached"]
    for one in matches:
        gain = one.diagnosis["predicted_speedup"]
        if gain and gain["point"] >= LEAST_GAIN and one.diagnosis["fixes"]:
            fix = one.diagnosis["fixes"][0]["id"]
            return "change", f"{fix}, {gain['point']:.3g}x [{gain['low']:.3g}, {gain['high']:.3g}]"
    if 0 < known.get("speedup", 1.0) < _PARITY:
        return "open", f"its reference is faster, so it is not finished; {_NO_CHANGE}"
    if resource == "l2":
        return "open", "less of that traffic would gain; no counter tells whether all of it must be"
    least = {"memory": _STOP_SHARE, "tensor": _STOP_TENSOR, "launch": _STOP_LAUNCH}[resource]
    if reached < least:
        return "open", f"{1 / reached:.2f}x is left to the ceiling, and {_NO_CHANGE}"
    if resource != "memory":
        what = "the tensor pipe" if resource == "tensor" else "an empty kernel"
        return "stop", f"{what} takes {min(1.0, reached):.0%} of the time"
    if not known.get("algorithmic_bytes"):
        if is_likely_product(known):
            return (
                "open",
                "if it is a product, it reads operands again; --metric algorithmic_bytes=N decides",
            )
        return "stop-if", "if all of that must move; --metric algorithmic_bytes=N decides"
    if ratio > _STOP_FLOOR:
        return "open", f"it moves {ratio * reached:.2f}x the bytes that must move; {_NO_CHANGE}"
    return "stop", f"{max(1.0, ratio):.2f}x its floor, and no change gains {LEAST_GAIN:g}x"


def _list_rest(
    rules: CompiledRules,
    predictor: Predictor,
    us: float,
    floor_us: float,
    ceiling: Ceiling,
) -> list[RestPart]:
    """Return what the time above the floor consists of; the model splits what is not counted."""
    now = predictor.now
    if now is None or us <= floor_us:
        return []
    parts: dict[str, float] = {}
    if ceiling["resource"] == "memory":
        more = us * min(1.0, ceiling["reached"]) - floor_us
        parts["bytes beyond those that must move"] = max(0.0, more)
    if ceiling["resource"] != "launch":
        parts["launch"] = now.launch * us
    left = us - floor_us - sum(parts.values())
    rows = build_time_shares(rules, predictor)
    done = {"launch", "compute" if ceiling["resource"] == "tensor" else "memory"}
    others = {row["title"]: row["share"] for row in rows if row["part"] not in done}
    if not sum(others.values()):
        others = {_OTHER_TITLES["unexplained"]: 1.0}
    total = sum(others.values())
    for title, share in others.items():
        parts[title] = parts.get(title, 0.0) + max(0.0, left) * share / total
    return _rank_rest(_shrink(parts, us - floor_us), us)


def add_timeline_to_rest(finish: Finish, timeline: KernelTimeline | None) -> Finish:
    """Return the verdict with the sampled ramp and tail in place of the model's idle SMs.

    Together they are no more than the time above the floor: memory may be busy while SMs are idle.
    """
    if timeline is None:
        return finish
    left = max(0.0, finish["measured_us"] - finish["floor_us"])
    sampled = {"ramp": timeline["ramp_us"], "tail": timeline["lost_us"] or 0.0}
    model = {row["what"]: row["us"] for row in finish["rest"]}
    model.pop(_OTHER_TITLES["fill"], None)
    sampled = _shrink(sampled, left)
    parts = {**sampled, **_shrink(model, left - sum(sampled.values()))}
    return {**finish, "rest": _rank_rest(parts, finish["measured_us"])}


def _shrink(parts: Mapping[str, float], total: float) -> dict[str, float]:
    """Return parts that sum to no more than a total."""
    factor = min(1.0, max(0.0, total) / (sum(parts.values()) or 1.0))
    return {what: part * factor for what, part in parts.items()}


def _rank_rest(parts: Mapping[str, float], us: float) -> list[RestPart]:
    kept = {what: part for what, part in parts.items() if part >= _LEAST_PART * us}
    ranked = sorted(kept.items(), key=lambda one: (-one[1], one[0]))[:_MOST_PARTS]
    return [{"what": what, "us": round(part, 3)} for what, part in ranked]
