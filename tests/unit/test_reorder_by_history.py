"""Advice remembers what was tried: without gain behind, under another cause back in front."""

import copy

import pytest
from attempts import make_attempt, make_outcome

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.past_changes import TriedChange, reorder_by_history
from kernelkb.decide.recommend import recommend

METRICS = {"sectors_per_load": 32.0, "dram_utilization": 0.3, "speedup": 0.4}


@pytest.fixture(scope="module")
def answer():
    return recommend(load_compiled_rules(), METRICS, kernel="scale")


def list_fixes(answer):
    return [fix["id"] for fix in answer["diagnoses"][0]["fixes"]]


def make_tried(result, fix, *, on_path=False, **fields):
    first, _ = make_attempt("a", 0)
    one, _ = make_attempt("b", 1, first.id)
    event = make_outcome(one, 1, result, (fix,), **fields)
    return TriedChange(one.id, "21 Nov", event.outcome, on_path)


def ask(answer, *tried, undoes=None):
    diagnoses, count = reorder_by_history(answer["diagnoses"], tried, undoes or {})
    return {**answer, "diagnoses": diagnoses}, count


@pytest.mark.parametrize("result", ["no-gain", "slower", "failed"])
def test_a_fix_without_gain_stands_behind_with_its_reason(answer, result):
    fixes = list_fixes(answer)
    changed, count = ask(answer, make_tried(result, fixes[0]))

    assert list_fixes(changed) == [*fixes[1:], fixes[0]]
    assert count == 1
    assert "tried 21 Nov as" in changed["diagnoses"][0]["fixes"][-1]["tried"]


def test_it_comes_back_when_something_else_binds(answer):
    fixes = list_fixes(answer)
    changed, count = ask(answer, make_tried("no-gain", fixes[0], bottleneck="small-grid"))

    assert list_fixes(changed) == fixes
    assert count == 0
    assert "while small-grid was found" in changed["diagnoses"][0]["fixes"][0]["tried"]


def test_a_fix_that_is_applied_is_not_told_again(answer):
    fixes = list_fixes(answer)
    changed, _ = ask(answer, make_tried("faster", fixes[0], on_path=True))

    assert list_fixes(changed)[-1] == fixes[0]
    assert "applied already" in changed["diagnoses"][0]["fixes"][-1]["tried"]


def test_a_gain_on_another_branch_is_offered(answer):
    fixes = list_fixes(answer)
    changed, _ = ask(answer, make_tried("faster", fixes[0]))

    assert list_fixes(changed) == fixes
    assert "kb lab restore" in changed["diagnoses"][0]["fixes"][0]["tried"]


def test_a_fix_that_undoes_a_gain_stands_behind(answer):
    fixes = list_fixes(answer)
    gained = make_tried("faster", "register-tiling", on_path=True)
    changed, _ = ask(answer, gained, undoes={fixes[0]: ["register-tiling"]})

    assert list_fixes(changed)[-1] == fixes[0]
    assert "undoes register-tiling" in changed["diagnoses"][0]["fixes"][-1]["tried"]


def test_what_is_only_guessed_changes_nothing(answer):
    fixes = list_fixes(answer)
    changed, count = ask(answer, make_tried("no-gain", fixes[0], recognised_by="guess"))

    assert list_fixes(changed) == fixes
    assert count == 0


def test_a_diagnosis_whose_fixes_are_all_spent_stands_behind_the_others():
    metrics = {**METRICS, "waves": 0.2, "grid_block_count": 20.0, "sm_count": 132.0}
    both = recommend(load_compiled_rules(), metrics, kernel="scale")
    matches = [one for one in both["diagnoses"] if one["verdict"] == "matches"]
    assert len(matches) > 1
    first = matches[0]
    tried = [make_tried("no-gain", fix["id"]) for fix in first["fixes"]]
    ordered, _ = reorder_by_history(both["diagnoses"], tried, {})
    after = [one["bottleneck"] for one in ordered if one["verdict"] == "matches"]

    assert after[-1] == first["bottleneck"]
    assert sorted(after) == sorted(one["bottleneck"] for one in matches)


def test_ranking_is_a_permutation(answer):
    changed, _ = ask(answer, *(make_tried("slower", fix) for fix in list_fixes(answer)[::2]))

    assert sorted(list_fixes(changed)) == sorted(list_fixes(answer))


def test_every_pair_of_fixes_that_undo_each_other_says_so_on_both_sides():
    fixes = load_compiled_rules()["fixes"]

    for name, row in fixes.items():
        for other in row["undoes"]:
            assert name in fixes[other]["undoes"]


def test_what_helped_a_similar_kernel_of_the_project_stands_ahead(answer):
    fixes = list_fixes(answer)
    helped = {fixes[-1]: "helped other_kernel: 1.4x"}
    changed = {"diagnoses": reorder_by_history(answer["diagnoses"], [], {}, helped).diagnoses}

    assert list_fixes(changed) == [fixes[-1], *fixes[:-1]]
    assert changed["diagnoses"][0]["fixes"][0]["tried"] == "helped other_kernel: 1.4x"


def test_what_was_refuted_here_stays_behind_even_if_it_helped_elsewhere(answer):
    fixes = list_fixes(answer)
    tried = [make_tried("no-gain", fixes[0])]
    helped = {fixes[0]: "helped other_kernel: 1.4x"}
    changed = {"diagnoses": reorder_by_history(answer["diagnoses"], tried, {}, helped).diagnoses}

    assert list_fixes(changed)[-1] == fixes[0]


def test_the_diagnoses_that_are_given_stay_as_they_are(answer):
    before = copy.deepcopy(answer)
    ask(answer, *(make_tried("slower", fix) for fix in list_fixes(answer)))

    assert answer == before
