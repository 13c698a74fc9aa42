"""Tasks with one size: other numbers of rows are tried, and only a note says what they show."""

import pytest
from task_checks import check_task, make_module, make_task

TASK = make_task("return torch.softmax(x, -1)", "[torch.randn(16, 40)]")


def check(project, body, init="pass"):
    return check_task(project, TASK, make_module("ModelNew", body, init))


@pytest.mark.slow
def test_a_candidate_for_any_number_of_rows_is_told_so(project):
    found = check(
        project, "e = (x - x.amax(-1, keepdim=True)).exp()\nreturn e / e.sum(-1, keepdim=True)"
    )

    assert found.status == "correct", found.detail
    assert any("sizes drawn by the judge" in words for words in found.hidden_inputs)
    assert found.notes == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "word"),
    [
        pytest.param(
            "y = torch.softmax(x, -1)\nreturn y if len(y) == 16 else y * 0.5",
            "right for the task's own",
            marks=pytest.mark.slow,
        ),
        ("assert len(x) == 16\nreturn torch.softmax(x, -1)", "the candidate refuses it"),
        pytest.param(
            "import os\nif len(x) != 16: os._exit(3)\nreturn torch.softmax(x, -1)",
            "the candidate ended",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_candidate_for_one_number_of_rows_is_correct_with_a_note(project, body, word):
    found = check(project, body)

    assert found.status == "correct", found.detail
    assert any(word in note for note in found.notes), found.notes


@pytest.mark.slow
def test_a_buffer_of_its_own_size_is_no_fault(project):
    body = "self.y.copy_(torch.softmax(x, -1))\nreturn self.y"

    assert check(project, body, "self.y = torch.empty(16, 40)").status == "correct"


@pytest.mark.slow
def test_rows_that_depend_on_each_other_are_compared_with_the_same_rows(project):
    task = make_task("return x - x.mean(0)", "[torch.randn(16, 40)]")
    found = check_task(project, task, make_module("ModelNew", "return x - x.sum(0) / len(x)"))

    assert found.status == "correct", found.detail
    assert any("sizes drawn by the judge" in words for words in found.hidden_inputs)
