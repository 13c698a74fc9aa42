"""Of real kernels: one lesson changes the answers that rest on it, and no word of any other."""

from pathlib import Path

import pytest
from programs import knowledge, program
from session_histories import PRIORS, kind_of

from kernelkb.decide.recommend import recommend
from kernelkb.graph.calibration import lessons
from kernelkb.model.learned import Learned
from kernelkb.profiles.launch import wanted_metrics
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.record.learn import taught
from kernelkb.record.learning_cases import Case

DATA = Path(__file__).parents[1] / "data" / "ncu"
PAGES = ["library/torch_operations.csv", "row_softmax_full.csv", "row_softmax_naive.csv"]
VECTORS = [
    launch.metrics
    for page in PAGES
    for launch in read_raw_page((DATA / page).read_text(), wanted_metrics(program()))
]
VECTORS += [dict(case.metrics) for b in knowledge().bottlenecks for case in b.cases]
NOTHING = {**program(), "learned": {}}
BEFORE = [recommend(NOTHING, vector, device="h100-sxm") for vector in VECTORS]


def matches(answer):
    return [d for d in answer["diagnoses"] if d["verdict"] == "matches"]


def rests_on(answer, pair):
    """Whether a price of the answer is that of a bottleneck with this fix first."""
    return any(
        d["predicted_speedup"] and (d["bottleneck"], d["fixes"][0]["id"]) == pair
        for d in matches(answer)
        if d["fixes"]
    )


def lesson(pair):
    """The shipped program after twenty cases in which the fix gave nothing."""
    bottleneck, fix = pair
    case = Case("s", bottleneck, fix, "sm_90", kind_of(bottleneck, fix), 0.0)
    found = Learned(fixes=taught([case] * 20, [], PRIORS).fixes)
    return {**NOTHING, "learned": lessons(knowledge().model_copy(update={"learned": found}))}


PAIRS = sorted(
    {
        (d["bottleneck"], d["fixes"][0]["id"])
        for answer in BEFORE
        for d in matches(answer)
        if d["fixes"] and d["predicted_speedup"] and kind_of(d["bottleneck"], d["fixes"][0]["id"])
    }
)


def test_the_vectors_rest_on_many_fixes():
    assert len(PAIRS) >= 30


@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
def test_only_answers_that_rest_on_the_fix_change(pair):
    learned = lesson(pair)

    for vector, before in zip(VECTORS, BEFORE, strict=True):
        after = recommend(learned, vector, device="h100-sxm")
        if not rests_on(before, pair):
            assert after == before
            continue
        old, new = ({d["bottleneck"]: d for d in one["diagnoses"]} for one in (before, after))
        assert {name for name in old if old[name] != new[name]} == {pair[0]}
        assert [n for n in old if n != pair[0]] == [n for n in new if n != pair[0]]


@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
def test_what_was_learned_to_give_nothing_never_rises(pair):
    learned = lesson(pair)

    for vector, before in zip(VECTORS, BEFORE, strict=True):
        if rests_on(before, pair):
            after = recommend(learned, vector, device="h100-sxm")
            old, new = (
                [d["bottleneck"] for d in matches(one)].index(pair[0]) for one in (before, after)
            )
            assert new >= old
