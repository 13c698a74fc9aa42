"""An answer says stop, or names one change to make: never both."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from shipped_rules import knowledge, metrics, program

from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.decide.recommend import recommend
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.render.text.answers import describe_advice, format_answer_lines, format_findings
from kernelkb.render.text.steps import format_steps

DATA = Path(__file__).parents[1] / "data" / "ncu"
LAUNCHES = [
    launch.metrics
    for page in [*sorted((DATA / "faults").glob("*.csv")), DATA / "library/torch_operations.csv"]
    for launch in read_raw_page(page.read_text(), list_raw_names(program()))
]
STOPS = ({"speedup": 0.3}, {"correct": 0.0}, {"debug_build": 1.0}, {"attainable_speedup": 0.5})
_CHANGE = re.compile(r"change one thing|make the one change|keep it only if|revert unless|fix \S+:")


def check(decided):
    answer = complete_answer(decided)
    text = "\n".join(
        [*format_answer_lines(answer), *format_findings(answer), describe_advice(answer)]
    )
    if answer["gate"]["verdict"] == "stop":
        assert not _CHANGE.search(text)
        assert answer["change"] is None
        assert "->" not in describe_advice(answer)
        assert answer["next"], "a stop says what to do instead"
    for step in format_steps(answer["next"]):
        is_command = step.startswith(("kb ", "ncu ", "nsys "))
        assert not (is_command and re.search(r"[<>{}]|\.\.\.", step)), step
    return answer


@given(metrics())
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_of_drawn_numbers(target, measured):
    check(recommend(program(), measured, target=target, device="h100-sxm"))


def test_of_recorded_launches_with_each_reason_to_stop():
    verdicts = {}
    for launch in LAUNCHES:
        for reason in ({}, *STOPS):
            answer = check(recommend(program(), {**launch, **reason}, device="h100-sxm"))
            verdict = answer["gate"]["verdict"]
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
    assert verdicts["stop"] > len(LAUNCHES)
    assert verdicts["caution"] > 10


def test_of_each_case_of_the_knowledge():
    stopped = 0
    for bottleneck in knowledge().bottlenecks:
        for case in bottleneck.cases:
            for reason in ({}, *STOPS):
                values = {k: float(v) for k, v in case.metrics.items()} | reason
                answer = recommend(program(), values, target=bottleneck.target)
                stopped += check(answer)["gate"]["verdict"] == "stop"
    assert stopped > 100
