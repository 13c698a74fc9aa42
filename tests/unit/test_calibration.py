"""What was learned changes the answers that it is about, and no other."""

from pathlib import Path

import pytest
from session_histories import is_known, make_decision, make_session
from shipped_rules import knowledge, program, validate_answer

from kernelkb.checks import lint
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules_file import format_rules
from kernelkb.graph.compile import compile_rules
from kernelkb.model.answers.recommendation import PrintedAnswer
from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedCatalogue, LearnedFix
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.record.learn import learn_from_sessions
from kernelkb.render.text.answers import format_answer_lines
from kernelkb.render.text.steps import print_answer

UNCALIBRATED = compile_rules(knowledge().model_copy(update={"learned": LearnedCatalogue()}))
PAGE = Path(__file__).parents[1] / "data" / "ncu" / "row_softmax_full.csv"
(LAUNCH,) = read_raw_page(PAGE.read_text(), list_raw_names(program()))
MEASURED = LAUNCH.metrics
"""A whole profile of one thread for each row: few lanes are neighbours, few SMs have work."""
OTHER_BOTTLENECK = {"spill_store_bytes": 4096.0, "spill_instruction_share": 0.2}
BAD_SESSIONS = [make_session(f"s{n}", make_decision(share=-0.2)) for n in range(40)]


def compile_learned(sessions):
    found = learn_from_sessions(sessions, is_known)
    return compile_rules(knowledge().model_copy(update={"learned": found}))


def list_matches(answer):
    return [d for d in answer["diagnoses"] if d["verdict"] == "matches"]


def find_match(answer, name="uncoalesced-global-access"):
    return next(d for d in list_matches(answer) if d["bottleneck"] == name)


def test_a_fix_that_never_helped_loses_its_place():
    before = recommend(UNCALIBRATED, MEASURED, device="h100-sxm")
    after = recommend(compile_learned(BAD_SESSIONS), MEASURED, device="h100-sxm")

    assert list_matches(before)[0]["bottleneck"] == "uncoalesced-global-access"
    assert list_matches(after)[0]["bottleneck"] != "uncoalesced-global-access"
    assert {d["bottleneck"] for d in list_matches(after)} == {
        d["bottleneck"] for d in list_matches(before)
    }


@pytest.mark.parametrize("device", ["l4", None])
def test_another_architecture_is_answered_as_before(device):
    before = recommend(UNCALIBRATED, MEASURED, device=device)

    assert recommend(compile_learned(BAD_SESSIONS), MEASURED, device=device) == before


def test_another_bottleneck_is_answered_as_before():
    before = recommend(UNCALIBRATED, OTHER_BOTTLENECK, device="h100-sxm")

    assert list_matches(before)
    assert recommend(compile_learned(BAD_SESSIONS), OTHER_BOTTLENECK, device="h100-sxm") == before


def test_the_other_diagnoses_of_the_same_answer_keep_every_word():
    before, after = (
        {d["bottleneck"]: d for d in recommend(one, MEASURED, device="h100-sxm")["diagnoses"]}
        for one in (UNCALIBRATED, compile_learned(BAD_SESSIONS))
    )
    changed = {name for name in before if before[name] != after[name]}

    assert changed == {"uncoalesced-global-access"}


def test_an_answer_names_its_calibration_sessions():
    answer = recommend(compile_learned(BAD_SESSIONS[:2]), MEASURED, device="h100-sxm")
    said = find_match(answer)["learned"]

    assert (said["count"], said["sessions"], said["prior"]) == (2, ["s0", "s1"], PRIOR_SHARE)
    assert said["calibration"] == pytest.approx((2 * -0.2 + 5) / 7, abs=1e-4)
    validate_answer(print_answer(answer), PrintedAnswer)
    text = "\n".join(format_answer_lines(answer, everything=True))
    assert "learned on sm_90: remap-threads-coalesced gives 0.657 of its estimate" in text


def test_an_answer_names_five_sessions_and_counts_all():
    said = find_match(recommend(compile_learned(BAD_SESSIONS), MEASURED, device="h100-sxm"))[
        "learned"
    ]

    assert (len(said["sessions"]), said["session_count"]) == (5, 40)


def test_a_prediction_never_becomes_nothing():
    found = find_match(recommend(compile_learned(BAD_SESSIONS), MEASURED, device="h100-sxm"))

    assert found["predicted_speedup"]["point"] > 1


def test_the_first_case_changes_the_prediction_smoothly():
    near = [make_session("s", make_decision(share=0.8, together=tuple("abcdefghijklmnopqrst")))]
    gains = [
        find_match(recommend(one, MEASURED, device="h100-sxm"))["predicted_speedup"]
        for one in (UNCALIBRATED, compile_learned(near))
    ]

    assert gains[1] == pytest.approx(gains[0], rel=0.02)


def test_a_program_without_lessons_is_not_larger_for_them():
    assert UNCALIBRATED["learned"] == {}
    assert format_rules(UNCALIBRATED).count('"learned"') == 1


ROW = LearnedFix(
    fix="remap-threads-coalesced",
    bottleneck="uncoalesced-global-access",
    architecture="sm_90",
    observed=0.2,
    calibration=0.6,
    interval=(0.0, 1.0),
    count=5,
    tried=5,
    measured=5,
    succeeded=3,
    success_interval=(0.2, 0.9),
    sessions=("s",),
)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"calibration": 0.7}, "calibration is 0.7, should be 0.6000"),
        pytest.param({"interval": (0.7, 1.0)}, "lies outside its interval", marks=pytest.mark.slow),
        pytest.param(
            {"succeeded": 6},
            "succeeded ≤ measured ≤ tried does not hold",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_inconsistent_calibration_row_is_reported(wrong, says):
    sound, broken = (
        lint(knowledge().model_copy(update={"learned": LearnedCatalogue(fixes=(row,))}))
        for row in (ROW, ROW.model_copy(update=wrong))
    )

    assert sound == []
    assert any(says in text for _, text in broken)


def test_the_shipped_lessons_are_in_the_shipped_program():
    rows = {f"{f.architecture}/{f.bottleneck}/{f.fix}" for f in knowledge().learned.fixes}

    assert set(program()["learned"]) <= rows
