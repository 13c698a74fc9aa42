"""Of real kernels: one lesson changes the answers that rest on it, and no word of any other."""

from functools import cache
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


@cache
def answer_uncalibrated():
    """Return vectors of metrics, each with the answer that no case has calibrated."""
    vectors = [
        launch.metrics
        for page in PAGES
        for launch in read_raw_page((DATA / page).read_text(), list_raw_names(program()))
    ]
    vectors += [dict(case.metrics) for b in knowledge().bottlenecks for case in b.cases]
    rules = {**program(), "learned": {}}
    return [(vector, recommend(rules, vector, device="h100-sxm")) for vector in vectors]


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
        **program(),
        "learned": build_calibration_rows(knowledge().model_copy(update={"learned": found})),
    }


@cache
def list_pairs():
    """Return each bottleneck with the fix that an answer prices it by."""
    return sorted(
        {
            (d["bottleneck"], d["fixes"][0]["id"])
            for _, answer in answer_uncalibrated()
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


def test_the_vectors_rest_on_many_fixes():
    assert len(list_pairs()) >= 25


def changes_only_what_rests_on_it(pair):
    """Whether answers are as before the fix was calibrated to zero, save for its bottleneck."""
    learned = calibrate_to_zero(pair)
    for vector, before in answer_uncalibrated():
        after = recommend(learned, vector, device="h100-sxm")
        if is_gainless(before, pair[0]):
            if not is_gainless(after, pair[0]) or after["diagnoses"] != before["diagnoses"]:
                return False
            continue
        if not depends_on_fix(before, pair):
            if after != before:
                return False
            continue
        old, new = ({d["bottleneck"]: d for d in one["diagnoses"]} for one in (before, after))
        if {name for name in old if old[name] != new.get(name)} != {pair[0]}:
            return False
        if pair[0] not in new and not is_gainless(after, pair[0]):
            return False
        if list_unrelated(before, pair[0]) != list_unrelated(after, pair[0]):
            return False
    return True


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(0, id="a tenth"),
        *(pytest.param(start, marks=pytest.mark.slow) for start in range(1, 10)),
    ],
)
def test_only_answers_that_rest_on_the_fix_change(start):
    """What one pair of a bottleneck and its fix shows, the others repeat."""
    wrong = [pair for pair in list_pairs()[start::10] if not changes_only_what_rests_on_it(pair)]

    assert wrong == []


def ranks_higher(pair):
    """Whether a bottleneck ranks higher in an answer after its fix was calibrated to zero."""
    learned = calibrate_to_zero(pair)
    for vector, before in answer_uncalibrated():
        if depends_on_fix(before, pair):
            after = recommend(learned, vector, device="h100-sxm")
            old, new = ([d["bottleneck"] for d in list_matches(one)] for one in (before, after))
            if depends_on_fix(after, pair) and new.index(pair[0]) < old.index(pair[0]):
                return True
    return False


def test_a_fix_calibrated_to_zero_never_ranks_higher():
    assert [pair for pair in list_pairs() if ranks_higher(pair)] == []
