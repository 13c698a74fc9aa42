"""What is shown of a log: its lines, and the first that reports an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.decide.symptoms import clean_log, find_first_error


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("ok\na.cu(3): error: expected a ';'\n", 2),
        ("[1/2] nvcc\nFAILED: a.o\na.cu(3): error: expected a ';'\nninja: build stopped\n", 3),
        ("ninja: build stopped\nCalledProcessError: returned non-zero exit status 1\n", 1),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'\n", 3),
        ("[rank0]: torch.SomeError: no\n", 1),
        ("a.cpp:1:1: Fehler: »x« bezeichnet keinen Typ\n", 1),
        ("a.cpp:1:1: \u9519\u8bef\uff1a\u2018x\u2019\n", 1),
        ("==ERROR== something new\n", 1),
        ("Segmentation fault (core dumped)\n", 1),
        ("It stops with the following error:\n\na.h:2:2: error: #error no\n", 3),
        ("It stops with the following error:\n\nsomething unknown\n", 1),
    ],
)
def test_the_first_error_is_the_cause_not_what_follows(log, line):
    assert find_first_error(clean_log(log))["line"] == line


@pytest.mark.parametrize(
    "log",
    ["", "all tests passed\n", "errors: 0\n", "max abs error 0.25\n", "0 errors\n-Werror\n"],
)
def test_without_an_error_none_is_shown(log):
    assert find_first_error(clean_log(log)) is None


def test_a_long_line_is_cut_around_the_match():
    text = clean_log(f"{'x ' * 2000}error here{' y' * 2000}")

    assert "error here" in text.quote_line(1, text.shown.index("error"))
    assert len(text.quote_line(1)) <= 300


def test_a_link_and_a_colour_of_the_compiler_are_removed():
    text = clean_log(
        "\x1b]8;;https://gcc.gnu.org\x07-Wall\x1b]8;;\x07 \x1b[01;31merror:\x1b[m\r\nnext"
    )

    assert text.shown == "-Wall error:\nnext"


@given(st.text(max_size=300))
def test_both_forms_have_the_same_lines(log):
    text = clean_log(log)

    assert len(text.shown) == len(text.matched)
    assert text.line_at(len(text.shown)) == text.shown.count("\n") + 1
