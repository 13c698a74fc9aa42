"""The nearest measured cases and their votes."""

import pytest
from benchmarks import similar_cases
from benchmarks.similar_cases import (
    VoteSettings,
    rank_by_neighbours,
    score_fixes,
    weigh_own_fixes,
)

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.past_changes import (
    CaseWeights,
    Vote,
    find_similar_cases,
    vectorize_answer,
    weigh_cases,
)


def make_answer(causes, time):
    """Return the parts of an answer that count: fixes by cause, the first cause first."""
    diagnoses = [
        {
            "bottleneck": cause,
            "verdict": "matches",
            "confidence": 0.8,
            "fixes": [{"id": name} for name in fixes],
        }
        for cause, fixes in causes.items()
    ]
    parts = [{"part": name, "share": share} for name, share in time.items()]
    return {"diagnoses": diagnoses, "time": parts}


def make_case(kernel, fix, cause, memory, *, told=None, speedup=2.0):
    return {
        "kernel": kernel,
        "fix": fix,
        "bottleneck": cause,
        "operation": "reduction",
        "device": "h100-sxm",
        "speedup": speedup,
        "state": {f"cause:{told or cause}": 0.8, "time:memory": memory, "time:fill": 1 - memory},
    }


@pytest.fixture
def answer():
    return make_answer(
        {"small-grid": ["split-k", "batch-problem"], "tail-effect": ["stream-k"]},
        {"memory": 0.6, "fill": 0.4},
    )


def test_a_case_of_the_first_cause_with_the_same_time_budget_has_a_whole_vote(answer):
    votes = weigh_cases(answer, [make_case("one", "split-k", "small-grid", 0.6)])

    assert [vote.weight for vote in votes] == [pytest.approx(1.0)]


def test_a_vote_falls_with_the_distance_of_the_time_budget_and_with_the_cause(answer):
    settings = CaseWeights()
    cases = [
        make_case("strange", "split-k", "low-ilp", 0.6),
        make_case("later", "split-k", "tail-effect", 0.6),
        make_case("told-alike", "split-k", "low-ilp", 0.6, told="small-grid"),
        make_case("far", "split-k", "small-grid", 0.6 - settings.width / 2**0.5),
    ]
    weights = {vote.case["kernel"]: vote.weight for vote in weigh_cases(answer, cases)}

    assert weights == {
        "strange": pytest.approx(settings.no_cause),
        "later": pytest.approx(settings.later),
        "told-alike": pytest.approx(settings.same_told),
        "far": pytest.approx(0.3679, abs=1e-4),
    }


def test_each_kernel_votes_once_and_one_left_out_not_at_all(answer):
    cases = [
        make_case("one", "split-k", "small-grid", 0.1),
        make_case("one", "batch-problem", "small-grid", 0.6),
        make_case("other", "stream-k", "small-grid", 0.6),
    ]
    votes = weigh_cases(answer, cases, without={"other"})

    assert [vote.case["fix"] for vote in votes] == ["batch-problem"]


def test_the_order_of_a_state_does_not_matter(answer):
    case = make_case("one", "split-k", "low-ilp", 0.3, told="small-grid")
    case["state"]["cause:tail-effect"] = 0.4
    turned = {**case, "state": dict(reversed(case["state"].items()))}

    assert weigh_cases(answer, [case])[0].weight == weigh_cases(answer, [turned])[0].weight


def test_own_fixes_count_less_with_their_place_and_their_cause(answer):
    settings = VoteSettings(CaseWeights(later=0.4), place=0.5)

    assert weigh_own_fixes(answer, settings) == {
        "split-k": 1.0,
        "batch-problem": pytest.approx(1 / 1.5),
        "stream-k": pytest.approx(0.4),
    }


def test_scores_are_sums_of_votes_and_a_fix_that_the_answer_does_not_name_counts_less():
    settings = VoteSettings(own=2.0, unnamed=0.5)
    cases = [make_case(name, "split-k", "small-grid", 0.6) for name in ("one", "two")]
    votes = [Vote(0.5, cases[0]), Vote(0.25, cases[1])]
    votes.append(Vote(0.8, make_case("three", "xor-swizzle", "small-grid", 0.6)))

    assert score_fixes({"split-k": 1.0}, votes, settings) == {
        "split-k": pytest.approx(2.75),
        "xor-swizzle": pytest.approx(0.4),
    }


def test_enough_neighbours_change_the_order_of_the_answer(answer):
    cases = [make_case(f"k{at}", "batch-problem", "small-grid", 0.6) for at in range(3)]

    assert rank_by_neighbours(answer, [])[:2] == ["split-k", "batch-problem"]
    assert rank_by_neighbours(answer, cases)[:2] == ["batch-problem", "split-k"]


def test_another_fix_for_the_same_cause_stands_before_the_same_fix_again(answer):
    cases = [
        make_case("nearest", "split-k", "small-grid", 0.6),
        make_case("again", "split-k", "small-grid", 0.55),
        make_case("another", "batch-problem", "small-grid", 0.4),
        make_case("strange", "xor-swizzle", "low-ilp", 0.6),
    ]
    found = find_similar_cases(answer, cases, 4)

    assert [one["kernel"] for one in found] == ["nearest", "another", "again", "strange"]
    assert len(find_similar_cases(answer, cases, 2)) == 2


def test_without_a_profile_nothing_is_similar():
    without_time = make_answer({"small-grid": ["split-k"]}, {})

    assert not find_similar_cases(without_time, [make_case("one", "split-k", "small-grid", 0.6)], 3)


def test_a_kernel_without_a_cause_still_has_neighbours():
    nothing_found = make_answer({}, {"memory": 0.6, "fill": 0.4})
    cases = [make_case("one", "split-k", "small-grid", 0.6)]

    assert [one["kernel"] for one in find_similar_cases(nothing_found, cases, 3)] == ["one"]


def test_a_state_holds_the_first_cause_whole_and_later_ones_half(answer):
    assert vectorize_answer(answer) == {
        "cause:small-grid": 0.8,
        "cause:tail-effect": pytest.approx(0.4),
        "time:memory": 0.6,
        "time:fill": 0.4,
    }


def test_a_fix_with_the_same_score_as_others_is_behind_them():
    assert similar_cases.count_before({"one": 1.0, "two": 1.0, "three": 0.5}, "one") == 1
    assert similar_cases.count_before({"one": 1.0}, "absent") == float("inf")


def test_what_settings_are_worth_for_a_kernel_neither_counts_it_nor_asks_it():
    """Each of the two is a hit only by the vote of the other."""
    alone = make_answer({"small-grid": ["split-k", "batch-problem"]}, {"memory": 0.6, "fill": 0.4})
    cases = [similar_cases.Case(name, "stream-k", alone) for name in ("one", "two")]
    known = [make_case(name, "stream-k", "small-grid", 0.6) for name in ("one", "two")]
    settings = VoteSettings(own=0.5, unnamed=1.0)
    hits, worth = similar_cases.score_settings(cases, known, settings)

    assert hits == {"one": True, "two": True}
    assert worth == {"one": 0.0, "two": 0.0}


@pytest.mark.slow
def test_neighbours_and_answer_name_the_fix_more_often_than_the_answer_alone():
    known, cases = load_compiled_rules()["cases"], similar_cases.collect_cases()
    places = [similar_cases.find_place(one, known, VoteSettings()) for one in cases]
    own = sum(one.fix in similar_cases.list_own_fixes(one) for one in cases)
    shown = sum(one.fix in similar_cases.list_shown_fixes(one, known) for one in cases)

    assert sum(place < 2 for place in places) > own
    assert shown / len(cases) > 0.6
