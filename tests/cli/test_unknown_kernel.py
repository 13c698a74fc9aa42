"""A kernel that does not exist creates nothing; one is found by any of its paths."""

import pytest
from simple_kernels import write_kernel

from kernelkb.cli import main
from kernelkb.record.sessions import read_session

VERBS = [
    ["build", "nope"],
    ["build", "nope", "--arch", "9.0"],
    ["bench", "nope"],
    ["profile", "nope"],
    ["triage", "nope"],
    ["tune", "nope"],
    ["tune", "nope", "--plan", "--arch", "9.0"],
    ["sweep", "nope"],
    ["variant", "add", "nope", "x"],
    ["log", "nope"],
    ["restore", "--best", "nope"],
    ["restore", "0123abcd"],
    ["history", "nope"],
    ["best", "nope"],
    ["compare", "a", "b", "--kernel", "nope"],
    ["regress", "nope"],
    ["show", "nope"],
    ["recommend", "--run", "0123abcd"],
    ["session", "new", "mine", "a goal", "--kernel", "nope"],
    ["session", "log", "--goal", "a goal", "--kernel", "nope"],
]
PATHS = ["kernels/twice", "kernels/twice/", "twice/kernel.yaml", "./kernels/twice/plain.cpp"]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_an_unknown_kernel_creates_nothing(project, capsys, words):
    before = sorted(project.rglob("*"))

    assert main(words) == 2

    assert sorted(project.rglob("*")) == before
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("path", PATHS)
def test_a_path_names_the_kernel_of_each_verb(project, capsys, path):
    write_kernel(project, "twice")

    assert main(["build", path, "--arch", "9.0"]) == 2  # known, and without a CUDA variant
    assert "twice has no cuda variant" in capsys.readouterr().err
    assert main(["variant", "add", path, "other"]) == 0
    assert main(["log", path]) == 0
    assert "twice" in capsys.readouterr().out
    assert main(["session", "new", "mine", "a goal", "--kernel", path]) == 0
    assert read_session("mine", project / "sessions").kernel == "twice"


@pytest.mark.parametrize("text", ["==PROF== Connected to 12\n  Section: GPU", "a\nb\n" * 400])
@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["recommend", "--profile"], "the text is no report of Nsight Compute; give a .ncu-rep"),
        (["report"], "save it as a file and give its path"),
    ],
)
def test_text_that_is_no_report_is_answered_with_what_to_give(project, capsys, words, cure, text):
    assert main([*words, text]) == 2

    err = capsys.readouterr().err
    assert cure in err
    assert len(err) < 400
    assert not list((project / "sessions").iterdir())


def test_text_in_place_of_a_metric_is_answered_with_the_option_for_a_path(capsys):
    assert main(["recommend", "--metric", "Duration us 3\nx=4"]) == 2
    assert "--profile" in capsys.readouterr().err
