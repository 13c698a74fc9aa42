"""Counts how often the nearest measured kernels point at the fix that helped; each is left out.

``python -m benchmarks.similar_cases`` needs no GPU and takes two minutes; ``--quick`` omits
the held-out choice, ``--misses`` prints the misses. A case is a change of the zoo that gained; all
recordings of its own kernel are left out when its neighbours are asked. Held out: for each kernel
the settings are chosen on the others, among whose voters it is not. A tie counts as a miss.

A case left out makes its own fix rarer than it is. A weight that could turn negative would learn
that the rarer fix is right, and held-out figures would not show it; so all weights are positive.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from benchmarks.zoo.pairs import list_pairs
from benchmarks.zoo.score import read_all_recordings

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.past_changes import (
    CaseWeights,
    Vote,
    find_similar_cases,
    weigh_cases,
)
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import MeasuredCaseRow
from kernelkb.model.answers.recommendation import KernelAnswer

_FIRST = 2
_GAIN = 1.05
_TIE = 1e-9
_WANTED = 0.8
_GRID = {
    "width": (0.2, 0.4),
    "own": (1.0, 2.0),
    "place": (0.3, 0.7),
    "later": (0.3, 0.6),
    "same_told": (0.0, 0.7),
    "no_cause": (0.0, 0.05),
    "unnamed": (0.2, 0.6),
}


class Case(NamedTuple):
    """A kernel, the answer for it and the fix that helped."""

    kernel: str
    fix: str
    answer: KernelAnswer

    @property
    def told(self) -> str:
        """The first cause that the answer names."""
        matches = (d["bottleneck"] for d in self.answer["diagnoses"] if d["verdict"] == "matches")
        return next(matches, "none")


def main() -> None:
    """Print the shares: of all cases, and of those whose fix helped another kernel, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    known = load_compiled_rules()["cases"]
    cases = collect_cases()
    places = {one.kernel: find_place(one, known, VoteSettings()) for one in cases}
    hits = {kernel for kernel, place in places.items() if place < _FIRST}
    possible = [one for one in cases if count_others(one, cases)]
    _print_share("fix among the first two of neighbours and answer", len(hits), len(cases))
    right = sum(one.kernel in hits for one in possible)
    _print_share("of those whose fix helped another kernel", right, len(possible))
    shown = sum(one.fix in list_shown_fixes(one, known) for one in cases)
    _print_share("fix of one of the three nearest cases", shown, len(cases))
    own = sum(one.fix in list_own_fixes(one) for one in cases)
    _print_share("first two fixes of the first cause alone", own, len(cases))
    most = sum(count_most_frequent(cases).values())
    _print_share("two most frequent fixes of each first cause, none left out", most, len(cases))
    if options.misses:
        print_misses(cases, known, places)
    if not options.quick:
        held, chosen, naive = hold_out(cases, known)
        _print_share("best of the settings, chosen on all cases", naive, len(cases))
        _print_share("held out: settings chosen without the kernel", held, len(cases))
        for settings, count in chosen.most_common(3):
            print(f"  chosen {count} times: {settings}")


def collect_cases() -> list[Case]:
    """Return the changes of the zoo that gained, with the answer before the change."""
    rules = load_compiled_rules()
    pairs = {name: kernel.pair for name, kernel in list_pairs().items()}
    found = []
    for row in read_all_recordings(None):
        pair = pairs.get(row.kernel)
        if pair is not None and row.speedup >= _GAIN and pair.bottlenecks:
            answer = recommend(rules, row.before.metrics, device=row.device)
            found.append(Case(row.kernel, pair.fix, answer))
    return found


class VoteSettings(NamedTuple):
    """How much the answer's own order counts beside the cases."""

    cases: CaseWeights = CaseWeights()
    own: float = 2.0
    """Votes of the answer for the first fix of its first cause."""
    place: float = 0.3
    """Loss with each place of a fix in the list of its cause."""
    unnamed: float = 0.6
    """Factor for a fix that the answer does not name."""


_USUAL = VoteSettings()


def rank_by_neighbours(
    answer: KernelAnswer,
    cases: Sequence[MeasuredCaseRow],
    *,
    without: Collection[str] = (),
) -> list[str]:
    """Return fixes in the order in which the nearest cases and the answer speak for them."""
    scores = score_fixes(weigh_own_fixes(answer), weigh_cases(answer, cases, without=without))
    return sorted(scores, key=lambda fix: (-scores[fix], fix))


def score_fixes(
    own: Mapping[str, float], votes: Sequence[Vote], settings: VoteSettings = _USUAL
) -> dict[str, float]:
    """Return the sum of the votes of the cases and of the answer for each fix."""
    scores = {fix: settings.own * weight for fix, weight in own.items()}
    for weight, case in votes:
        fix = case["fix"]
        factor = 1.0 if fix in own else settings.unnamed
        scores[fix] = scores.get(fix, 0.0) + factor * weight
    return scores


def weigh_own_fixes(answer: KernelAnswer, settings: VoteSettings = _USUAL) -> dict[str, float]:
    """Return how much the answer's own order speaks for each of its fixes, 0 to 1."""
    weights: dict[str, float] = {}
    for at, one in enumerate([d for d in answer["diagnoses"] if d["verdict"] == "matches"]):
        for place, fix in enumerate(one["fixes"]):
            weight = settings.cases.later**at / (1 + settings.place * place)
            weights[fix["id"]] = max(weight, weights.get(fix["id"], 0.0))
    return weights


def make_settings(values: Mapping[str, float]) -> VoteSettings:
    """Return settings from values by field, of cases and votes alike."""
    own = {name: value for name, value in values.items() if name in VoteSettings._fields}
    cases = {name: value for name, value in values.items() if name not in own}
    return VoteSettings(CaseWeights(**cases), **own)


def find_place(case: Case, known: Sequence[MeasuredCaseRow], settings: VoteSettings) -> float:
    """Return how many fixes stand before the one that helped; infinite if it is not told."""
    votes = weigh_cases(case.answer, known, settings.cases, without={case.kernel})
    scores = score_fixes(weigh_own_fixes(case.answer, settings), votes, settings)
    return count_before(scores, case.fix)


def count_before(scores: Mapping[str, float], fix: str) -> float:
    """Return how many other fixes have at least the score of this one."""
    if scores.get(fix, 0.0) <= 0:
        return float("inf")
    return sum(score >= scores[fix] - _TIE for other, score in scores.items() if other != fix)


def count_others(case: Case, cases: Iterable[Case]) -> int:
    """Return how many other kernels the same fix helped."""
    return len({one.kernel for one in cases if one.fix == case.fix} - {case.kernel})


def list_shown_fixes(case: Case, known: Sequence[MeasuredCaseRow]) -> set[str]:
    """Return the fixes of the cases that an answer shows."""
    return {one["fix"] for one in find_similar_cases(case.answer, known, 3, without={case.kernel})}


def list_own_fixes(case: Case) -> list[str]:
    """Return the first fixes of the first cause."""
    matches = [one for one in case.answer["diagnoses"] if one["verdict"] == "matches"]
    return [fix["id"] for fix in matches[0]["fixes"][:_FIRST]] if matches else []


def count_most_frequent(cases: Iterable[Case]) -> dict[str, int]:
    """Return, for each first cause, how many cases its two most frequent fixes helped.

    More cannot be right where nothing but the first cause tells the fixes apart.
    """
    fixes: dict[str, Counter[str]] = defaultdict(Counter)
    for one in cases:
        fixes[one.told][one.fix] += 1
    return {cause: sum(n for _, n in one.most_common(_FIRST)) for cause, one in fixes.items()}


def print_misses(
    cases: Sequence[Case], known: Sequence[MeasuredCaseRow], places: Mapping[str, float]
) -> None:
    """Print each miss with its nearest neighbours, and for each fix how often it was missed."""
    missed = [one for one in cases if places[one.kernel] >= _FIRST]
    for one in missed:
        votes = weigh_cases(one.answer, known, without={one.kernel})[:3]
        near = ", ".join(f"{v.case['kernel']} {v.case['fix']} {v.weight:.2f}" for v in votes)
        place = places[one.kernel] + 1
        print(f"  {one.kernel}: {one.fix}, place {place:.0f}, told {one.told}; near: {near}")
    for fix, count in Counter(one.fix for one in missed).most_common():
        print(f"  missed {count} of {sum(one.fix == fix for one in cases)}: {fix}")
    short = _WANTED * len(cases) - (len(cases) - len(missed))
    print(f"  short of {_WANTED:.0%}: {short:.0f}")


def hold_out(
    cases: Sequence[Case], known: Sequence[MeasuredCaseRow]
) -> tuple[int, Counter[VoteSettings], int]:
    """Return the hits where each kernel's settings are chosen on the others, and the naive best.

    The settings chosen have the most hits and, of equals, the largest mean of 1/place.
    """
    found: dict[VoteSettings, tuple[dict[str, bool], dict[str, float]]] = {}
    for values in product(*_GRID.values()):
        settings = make_settings(dict(zip(_GRID, values, strict=True)))
        found[settings] = score_settings(cases, known, settings)
    chosen: Counter[VoteSettings] = Counter()
    held = 0
    for one in cases:
        best = max(found, key=lambda settings: found[settings][1][one.kernel])
        chosen[best] += 1
        held += found[best][0][one.kernel]
    return held, chosen, max(sum(hits.values()) for hits, _ in found.values())


def score_settings(
    cases: Sequence[Case], known: Sequence[MeasuredCaseRow], settings: VoteSettings
) -> tuple[dict[str, bool], dict[str, float]]:
    """Return the hits, and for each kernel the worth of the settings on all others without it."""
    hits: dict[str, bool] = {}
    worth = dict.fromkeys((one.kernel for one in cases), 0.0)
    for one in cases:
        own = weigh_own_fixes(one.answer, settings)
        votes = weigh_cases(one.answer, known, settings.cases, without={one.kernel})
        scores = score_fixes(own, votes, settings)
        hits[one.kernel] = count_before(scores, one.fix) < _FIRST
        for kernel, place in _place_without_each(one, own, votes, scores, settings).items():
            if kernel in worth:
                worth[kernel] += (place < _FIRST) + 1 / (1 + place) / len(cases)
    return hits, worth


def _place_without_each(
    case: Case,
    own: Mapping[str, float],
    votes: Sequence[Vote],
    scores: Mapping[str, float],
    settings: VoteSettings,
) -> dict[str, float]:
    """Return the place of the fix of a case when one voter is left out, for each voter."""
    places = {}
    left = dict(scores)
    for weight, voter in votes:
        fix = voter["fix"]
        left[fix] = scores[fix] - weight * (1.0 if fix in own else settings.unnamed)
        places[voter["kernel"]] = count_before(left, case.fix)
        left[fix] = scores[fix]
    return places


def _print_share(title: str, count: int, total: int) -> None:
    print(f"{title:<60} {count} of {total} ({count / total:.0%})")


if __name__ == "__main__":
    main()
