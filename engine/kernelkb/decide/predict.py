"""Predicts what fixes would gain, and chooses what must be measured after one.

That is the fired comparison, moved as far as predicted. It is false before the change. So a fix
whose cause was right makes it true, and one that changed nothing, or something else, does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, inf, log, prod
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.decide.conditions import Facts, find_reasons, judge_condition, satisfies
from kernelkb.decide.derive import evaluate_formula
from kernelkb.decide.time_model import (
    MIN_TIME,
    Change,
    KernelTime,
    build_kernel_time,
    combine_roofs,
    compute_latency_factor,
    predict_time,
)

if TYPE_CHECKING:
    from kernelkb.decide.rules import (
        BottleneckRow,
        CompiledRules,
        EffectRow,
        FalsifierRow,
        Program,
        TimeModelRow,
    )
    from kernelkb.model.answers.recommendation import Expectation, PredictedSpeedup, Reason

_USEFUL = ("useful_dram_utilization", "dram_practical_share", "useful_issue_utilization")
_ISSUE_PEAK = 0.95
_COVERAGE = "80"
"""Percent of the measured gains that an interval is to hold."""
_MISSING_ERROR = 5.0
"""Growth of the width of intervals with the share of missing counters (fitted by leaving out)."""
_MAX_ERROR = 3.0
_MAX_SPEEDUP = 1000.0
_MOST_OF_THE_TIME = 0.5
"""Share of the time; what a change does to it, an unexplained rest does not show."""
_WIDEST = 50.0
"""Upper end of an interval over its lower one, from which it predicts nothing; chosen."""
_WIDEST_TOLD = 6.0
"""The same for one that holds a loss as large as the gain, from which it is not told: between 0.4x
and 3.5x lies any outcome of a change (chosen)."""
FLOOR_ERROR = 1.1
"""Measured kernels come this much below a roofline of practical peaks."""
LEAST_GAIN = 1.15
"""Least gain that is worth a change: the smallest that predictions near a floor tell from none
(``benchmarks/zoo/stop.py``)."""

_OF_PEAK = "_utilization"
"""How metrics end that say how busy a unit is."""
_DURATIONS = ("profiled_us", "kernel_us")
_DEFAULT_MOVE = 0.2
"""Least move, as a share of the value before, where nothing predicts one (judgement)."""
_NOISE = 0.03
"""Share by which counters differ from run to run: a smaller move shows nothing (judgement)."""
_MOVED_SHARE = 0.4
"""Share of the predicted move that must be seen (judgement)."""
_UNWANTED_OPS = {"<": ">=", "<=": ">=", ">": "<=", ">=": "<="}
"""By the operator of a fired comparison, that of its falsifier."""


class Prediction(NamedTuple):
    """The predicted speedup of one effect, or of several together."""

    speedup: float
    change: Change | None
    """None where the effect gives the time itself."""
    time: float
    """Time after ÷ time before by such an effect, and by what sessions found; else 1."""
    error: float
    """Factor on the width of the interval."""
    lowers_floor: bool
    conditional: bool = False
    """Whether its user has to allow the change."""
    effect: str = ""
    """Its id; empty for several together."""
    learned_share: float = 1.0
    """Share of the model's gain that sessions found realised, which ``speedup`` has."""
    most: float = inf
    """What no change of this kind exceeds."""

    @property
    def model_speedup(self) -> float:
        """The speedup by the model alone."""
        return self.speedup ** (1 / self.learned_share) if self.learned_share > 0 else self.speedup


class Predictor:
    """Predicts gains for one launch; each effect is evaluated once."""

    def __init__(self, rules: CompiledRules, facts: Facts) -> None:
        """Build the model of the launch's time, if its counters are known."""
        self._rules, self._facts = rules, facts
        self._effects: dict[str, Prediction | None] = {}
        self.now = build_kernel_time(rules["time_model"], facts.values)
        self.at_most = self.now and estimate_headroom(self.now, facts.values)
        """Speedup at which the useful work binds, for changes that keep the algorithm."""
        self._error = _widen_for_missing(rules["time_model"], self.now)

    def lacks_waits(self) -> bool:
        """Return whether most of the time is latency that no counter explains."""
        now = self.now
        return now is not None and not now.waits and now.latency > _MOST_OF_THE_TIME

    def predict_fix(
        self, fix: str, learned_share: float | None = None, widen: float = 1.0
    ) -> Prediction | None:
        """Return the gain of a fix by the first of its effects that applies; None without one.

        And where the interval would say nothing: what is left is a candidate without a prediction.

        Args:
            fix: Its id.
            learned_share: Share of a predicted gain that sessions found realised.
            widen: As of ``make_interval``.
        """
        for effect in self._rules["fixes"][fix]["effects"]:
            found = self.predict_effect(effect)
            if found is not None and not self._is_vague(found, widen):
                return found if learned_share is None else self._scale_gain(found, learned_share)
        return None

    def _is_vague(self, found: Prediction, widen: float) -> bool:
        """Return whether the interval is so wide that it predicts nothing."""
        interval = self.make_interval(found, widen)
        return interval["high"] > _WIDEST * interval["low"]

    def expects_effect(self, fix: str) -> bool:
        """Return whether a fix has an effect that is not excluded, known or unknown."""
        rows = (self._rules["effects"][name] for name in self._rules["fixes"][fix]["effects"])
        return any(
            "when" not in row or judge_condition(row["when"], self._facts.truth) is not False
            for row in rows
        )

    def predict_effect(self, effect: str) -> Prediction | None:
        """Return the gain of an effect; None where it is not to be expected, or is unknown."""
        if effect not in self._effects:
            found = self._predict_effect(self._rules["effects"][effect])
            self._effects[effect] = found and found._replace(effect=effect)
        return self._effects[effect]

    def predict_together(self, parts: Iterable[Prediction]) -> Prediction:
        """Return the gain of several fixes at once, which may hide or need each other."""
        found = list(parts)
        changes = combine_changes([part.change for part in found if part.change])
        time = prod(part.time for part in found)
        after = predict_time(self.now, changes) * time if self.now else time
        lowers = any(part.lowers_floor for part in found)
        error = max((part.error for part in found), default=1.0)
        return Prediction(self._cap(1 / after, lowers), changes, time, error, lowers)

    def make_interval(self, found: Prediction, widen: float = 1.0) -> PredictedSpeedup:
        """Return the speedup with the interval that holds four of five gains of known kinds.

        Decisions rest on it; ``tell_interval`` gives the one for kernels of other kinds.
        """
        row = self._rules["time_model"]
        center = log(max(found.speedup, 1.0))
        width = row["widths"][_COVERAGE] * (1 + row["slope"] * center)
        width *= found.error * widen * (self._error if found.change else 1.0)
        low, high = found.speedup / exp(width), found.speedup * exp(width)
        cap = self._cap(_MAX_SPEEDUP, found.lowers_floor) * FLOOR_ERROR
        if self.at_most is not None and not found.lowers_floor:
            cap = min(cap, self.at_most)
        high = max(min(high, cap, found.most), found.speedup)
        return {"low": round(low, 3), "point": round(found.speedup, 3), "high": round(high, 3)}

    def tell_interval(
        self, found: Prediction | None, widen: float = 1.0
    ) -> PredictedSpeedup | None:
        """Return the interval where it is of use; without one, a cause is only a candidate.

        It is as wide as kernels of other kinds need, and useful traffic is no bound of it: a change
        of the algorithm may save what counters take for useful.
        """
        interval = found and self.make_interval(found, widen)
        if not found or not interval or not is_told(interval):
            return None
        low, point = interval["low"], interval["point"]
        spread = (found.speedup / low) ** self._rules["time_model"]["unseen"]
        cap = self._cap(_MAX_SPEEDUP, found.lowers_floor) * FLOOR_ERROR
        high = max(min(found.speedup * spread, cap, found.most), point)
        return {"low": round(found.speedup / spread, 3), "point": point, "high": round(high, 3)}

    def _predict_effect(self, row: EffectRow) -> Prediction | None:
        if "when" in row and not judge_condition(row["when"], self._facts.truth):
            return None
        lowers = row["lowers_floor"]
        if row["time"] is not None:
            time = self._evaluate(row["time"])
            if time is None:
                return None
            time = min(1.0, max(time, 1 / _MAX_SPEEDUP))
            speedup = self._cap(1 / time, lowers)
            found = Prediction(speedup, None, time, row["error"], lowers, row["conditional"])
            return found._replace(most=1 / time) if row["bounds_gain"] else found
        change = self._build_change(row, self.now) if self.now else None
        if change is None or self.now is None:
            return None
        speedup = self._cap(1 / predict_time(self.now, change), lowers)
        return Prediction(speedup, change, 1.0, row["error"], lowers, row["conditional"])

    def _build_change(self, row: EffectRow, now: KernelTime) -> Change | None:
        """Return the change with its numbers; None if a quantity is unknown."""
        work = self._evaluate_all(row["work"], now.use)
        added = self._evaluate_all(row["add"], now.use)
        waits = self._evaluate_all(row["waits"], now.waits)
        if work is None or added is None or waits is None:
            return None
        if not (work or added or waits) and (row["work"] or row["waits"]):
            return None
        numbers = {name: self._evaluate(row[name]) for name in ("latency", "fill", "warps")}
        for name in ("latency", "fill", "warps"):
            if row[name] is not None and numbers[name] is None:
                return None
        if numbers["warps"] is not None and now.warps is None:
            return None
        latency = numbers["latency"]
        return Change(
            work=work,
            added=added,
            waits=waits,
            latency=1.0 if latency is None else max(0.0, latency),
            fill=numbers["fill"],
            warps=numbers["warps"],
        )

    def _evaluate_all(
        self, programs: Mapping[str, Program], known: Mapping[str, float]
    ) -> dict[str, float] | None:
        """Return the values of the known resources; None if one cannot be computed."""
        values: dict[str, float] = {}
        for name, program in programs.items():
            if name in known:
                value = evaluate_formula(program, self._facts.values)
                if value is None:
                    return None
                values[name] = max(0.0, value)
        return values

    def _scale_gain(self, found: Prediction, share: float) -> Prediction:
        """Return a prediction of which a share is realised, of the logarithm of the speedup."""
        speedup = min(self._cap(found.speedup**share, found.lowers_floor), found.most)
        time = found.time * found.speedup / speedup
        return found._replace(speedup=speedup, time=time, learned_share=share)

    def _evaluate(self, program: Program | None) -> float | None:
        return None if program is None else evaluate_formula(program, self._facts.values)

    def _cap(self, speedup: float, lowers_floor: bool) -> float:
        """Return a speedup that does not pass the roofline, unless the change lowers it."""
        attainable = self._facts.values.get("attainable_speedup")
        if attainable is not None and not lowers_floor:
            speedup = min(speedup, max(attainable, 1.0))
        return min(speedup, _MAX_SPEEDUP)


def _widen_for_missing(row: TimeModelRow, now: KernelTime | None) -> float:
    """Return the factor on the width of intervals for the counters that a reduced profile lacks."""
    if now is None:
        return _MAX_ERROR
    wanted = len(row["resources"]) + len(row["waits"])
    missing = 1 - (len(now.use) + len(now.waits)) / wanted
    return min(_MAX_ERROR, 1 + _MISSING_ERROR * missing)


def is_told(gain: PredictedSpeedup) -> bool:
    """Return whether an interval tells about how large a gain is, or that a loss is less likely."""
    is_narrow = 0 < gain["high"] <= _WIDEST_TOLD * gain["low"]
    return is_narrow or gain["low"] * gain["point"] >= 1


def build_falsifier(
    row: BottleneckRow,
    facts: Facts,
    model: TimeModelRow,
    now: KernelTime | None,
    prediction: Prediction | None,
) -> Expectation | None:
    """Return the comparison that the fix must make true; None if nothing that fired can move.

    The comparison that fired for the bottleneck's own metric is taken, else one that the knowledge
    names if it is false now, else the first that fired. Its number lies between the value before
    and the one that is predicted, or else the limit that fired. None where that is no more than a
    counter varies: then the time decides.
    """
    told = row["falsifier"]
    if told is None:
        return None
    fired = [r for r in find_reasons(row["when"], facts) if r["op"] in _UNWANTED_OPS]
    own = [
        reason
        for reason in fired
        if reason["metric"] == told["metric"] and _UNWANTED_OPS[reason["op"]][0] == told["op"][0]
    ]
    if own:
        return _negate(own[0], model, now, prediction)
    if found := _compare_as_told(told, facts.values):
        return found
    if not fired:
        return None
    if fired[0]["metric"].endswith(_OF_PEAK):
        return _expect_less_time(facts.values, prediction)
    return _negate(fired[0], model, now, prediction)


def _expect_less_time(
    known: Mapping[str, float], prediction: Prediction | None
) -> Expectation | None:
    """Return that the kernel takes less time: a unit stays as busy where the work on it shrinks."""
    name = next((name for name in _DURATIONS if name in known), None)
    if name is None:
        return None
    gain = prediction.speedup if prediction else 1 / (1 - _DEFAULT_MOVE)
    goal = known[name] * (1 - _MOVED_SHARE * (1 - 1 / max(gain, 1.0)))
    return _make_expectation(name, "<=", goal, known[name])


def _negate(
    reason: Reason, model: TimeModelRow, now: KernelTime | None, prediction: Prediction | None
) -> Expectation | None:
    metric, value, limit = reason["metric"], reason["value"], reason["limit"]
    op = _UNWANTED_OPS[reason["op"]]
    after = _predict_metric(metric, value, model, now, prediction)
    wants_less = op == "<="
    if after is None or (after >= value if wants_less else after <= value):
        after = limit
    goal = value + _MOVED_SHARE * (after - value)
    if goal == value:
        goal = value * (1 - _DEFAULT_MOVE if wants_less else 1 + _DEFAULT_MOVE)
    return _make_expectation(metric, op, goal, value)


def _compare_as_told(told: FalsifierRow, known: Mapping[str, float]) -> Expectation | None:
    """Return the comparison of the knowledge; None if it holds already or cannot be compared."""
    metric, op, limit = told["metric"], told["op"], told["value"]
    value = known.get(metric)
    if value is None:
        return None
    if limit == metric:
        factor = 1 - _DEFAULT_MOVE if op in ("<", "<=") else 1 + _DEFAULT_MOVE
        goal: float | None = value * factor
    else:
        goal = known.get(limit) if isinstance(limit, str) else limit
    if goal is None or satisfies(value, op, goal):
        return None
    return _make_expectation(metric, op, goal, value)


def _make_expectation(metric: str, op: str, goal: float, value: float) -> Expectation | None:
    goal = float(f"{goal:.4g}")
    if satisfies(value, op, goal) or abs(goal - value) <= _NOISE * abs(value):
        return None
    return {
        "metric": metric,
        "op": op,
        "value": goal,
        "before": value,
        "expect": f"{metric} {op} {goal:.4g}, it is {value:.4g} now",
    }


def _predict_metric(
    metric: str,
    value: float,
    model: TimeModelRow,
    now: KernelTime | None,
    prediction: Prediction | None,
) -> float | None:
    """Return a metric after the change: the use of a resource, or the share of a wait.

    A unit that is no resource has as much to do in less time.
    """
    if now is None or prediction is None or prediction.change is None:
        return None
    change = prediction.change
    for resource in model["resources"]:
        if resource["use"] == metric and resource["id"] in now.use:
            work = change.work.get(resource["id"], 1.0)
            return value * work / predict_time(now, change)
    for name, (own, _) in model["waits"].items():
        if own == metric and name in change.waits:
            left = max(compute_latency_factor(now, change), 1e-6)
            return min(value, value * change.waits[name] / left)
    return value / predict_time(now, change) if metric.endswith(_OF_PEAK) else None


def estimate_headroom(now: KernelTime, known: Mapping[str, float]) -> float | None:
    """Return the speedup at which useful traffic and arithmetic bind; None if unknown.

    They then take their time at practical peaks: a bound for kernels that keep their algorithm.
    """
    if any(name not in known for name in _USEFUL):
        return None
    dram, peak, issue = (known[name] for name in _USEFUL)
    if peak <= 0:
        return None
    roofs = combine_roofs({"memory": dram / peak, "compute": issue / _ISSUE_PEAK})
    return max(1.0, 1 / max(now.launch + roofs, MIN_TIME))


def combine_changes(changes: Iterable[Change]) -> Change:
    """Return one change that does what several do."""
    parts = list(changes)
    fills = [part.fill for part in parts if part.fill is not None]
    warps = [part.warps for part in parts if part.warps is not None]
    return Change(
        work=_multiply([part.work for part in parts]),
        added={
            name: sum(part.added.get(name, 0.0) for part in parts)
            for name in {name for part in parts for name in part.added}
        },
        waits=_multiply([part.waits for part in parts]),
        latency=prod(part.latency for part in parts),
        fill=max(fills) if fills else None,
        warps=max(warps) if warps else None,
    )


def _multiply(factors: list[dict[str, float]]) -> dict[str, float]:
    names = {name for each in factors for name in each}
    return {name: prod(each.get(name, 1.0) for each in factors) for name in names}
