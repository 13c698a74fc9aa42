"""Of real kernels: one lesson changes the answers that rest on it, and no word of any other."""

from pathlib import Path

import pytest
from shipped_rules import knowledge, program

from kernelkb.decide.recommend import recommend
from kernelkb.graph.rows import build_calibration_rows
from kernelkb.model.entries.learned import LearnedCatalogue
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.record.learn import LearningCase, learn_from_cases

DATA = Path(__file__).parents[1] / "data" / "ncu"
PAGES = ["library/torch_operations.csv", "row_softmax_full.csv", "row_softmax_naive.csv"]
VECTORS = [
    launch.metrics
    for page in PAGES
    for launch in read_raw_page((DATA / page).read_text(), list_raw_names(program()))
]
VECTORS += [dict(case.metrics) for b in knowledge().bottlenecks for case in b.cases]
UNCALIBRATED = {**program(), "learned": {}}
BEFORE = [recommend(UNCALIBRATED, vector, device="h100-sxm") for vector in VECTORS]


def list_matches(answer):
    return [d for d in answer["diagnoses"] if d["verdict"] == "matches"]


def depends_on_fix(answer, pair):
    """Whether a price of the answer is that of a bottleneck with this fix first."""
    return any(
        d["predicted_speedup"] and (d["bottleneck"], d["fixes"][0]["id"]) == pair
        for d in list_matches(answer)
        if d["fixes"]
    )


def calibrate_to_zero(pair):
    """The shipped program after twenty cases in which the fix gave nothing."""
    bottleneck, fix = pair
    case = LearningCase("s", bottleneck, fix, "sm_90", 0.0)
    found = LearnedCatalogue(fixes=learn_from_cases([case] * 20, []).fixes)
    return {
        **UNCALIBRATED,
        "learned": build_calibration_rows(knowledge().model_copy(update={"learned": found})),
    }


PAIRS = sorted(
    {
        (d["bottleneck"], d["fixes"][0]["id"])
        for answer in BEFORE
        for d in list_matches(answer)
        if d["fixes"] and d["predicted_speedup"]
    }
)


def is_gainless(answer, bottleneck):
    """Whether a bottleneck matches, and is left out since its fix would gain nothing."""
    return any(
        (row["bottleneck"], row["guard"]) == (bottleneck, "no-gain") for row in answer["suppressed"]
    )


def list_unrelated(answer, bottleneck):
    """The diagnoses in order, without a bottleneck and those that it may stand before as cause."""
    return [
        d["bottleneck"]
        for d in answer["diagnoses"]
        if d["bottleneck"] != bottleneck and bottleneck not in SYMPTOM_OF[d["bottleneck"]]
    ]


SYMPTOM_OF = {b.id: b.symptom_of for b in knowledge().bottlenecks}


SOME_PAIRS = [
    pytest.param(pair, marks=() if number % 5 == 0 else pytest.mark.slow)
    for number, pair in enumerate(PAIRS)
]
"""A fifth in ``make test``: what one pair of a bottleneck and its fix shows, the others repeat."""


def test_the_vectors_rest_on_many_fixes():
    assert len(PAIRS) >= 30


@pytest.mark.parametrize("pair", SOME_PAIRS, ids="/".join)
def test_only_answers_that_rest_on_the_fix_change(pair):
    learned = calibrate_to_zero(pair)

    for vector, before in zip(VECTORS, BEFORE, strict=True):
        after = recommend(learned, vector, device="h100-sxm")
        if is_gainless(before, pair[0]):
            assert is_gainless(after, pair[0])
            assert after["diagnoses"] == before["diagnoses"]
            continue
        if not depends_on_fix(before, pair):
            assert after == before
            continue
        old, new = ({d["bottleneck"]: d for d in one["diagnoses"]} for one in (before, after))
        assert {name for name in old if old[name] != new.get(name)} == {pair[0]}
        assert pair[0] in new or is_gainless(after, pair[0])
        assert list_unrelated(before, pair[0]) == list_unrelated(after, pair[0])


@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
def test_a_fix_calibrated_to_zero_never_ranks_higher(pair):
    learned = calibrate_to_zero(pair)

    for vector, before in zip(VECTORS, BEFORE, strict=True):
        if depends_on_fix(before, pair):
            after = recommend(learned, vector, device="h100-sxm")
            old, new = ([d["bottleneck"] for d in list_matches(one)] for one in (before, after))
            rests_on_it = depends_on_fix(after, pair)
            assert not rests_on_it or new.index(pair[0]) >= old.index(pair[0])
