"""Text that others wrote is shown without its tricks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.safety.untrusted_text import (
    parse_json,
    quote_excerpt,
    sanitize_text,
    to_one_line,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31;1merror\x1b[0m", "error"),
        ("\x1b]8;;http://evil.example\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\text", "text"),
        ("\x9b31mred", "red"),
        ("a\x00b\x07c\x7fd", "abcd"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("in\u200bvisible\U000e0041", "invisible"),
        ("half \ud800 a letter", "half \ufffd a letter"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ('naïve — "x" 漢字', 'naïve — "x" 漢字'),
    ],
)
def test_terminal_controls_and_hidden_characters_are_removed(text, shown):
    assert sanitize_text(text) == shown


@given(st.text(alphabet=st.characters(), max_size=300), st.integers(20, 100))
def test_plain_text_is_short_printable_and_stays_so(text, most):
    shown = sanitize_text(text, most)

    assert len(shown) <= most
    assert all(c.isprintable() or c in "\n\t" or c.isspace() or ord(c) > 159 for c in shown)
    assert sanitize_text(shown, most) == shown
    shown.encode()


@given(st.text(max_size=300))
def test_a_quotation_cannot_be_closed_from_inside(text):
    assert quote_excerpt(text)[1:-1].count('"') == 0
    assert "\n" not in quote_excerpt(text)


def test_long_text_keeps_its_beginning_and_its_end():
    assert to_one_line("begin " + "x" * 9000 + " end", 60).startswith("begin x")
    assert to_one_line("begin " + "x" * 9000 + " end", 60).endswith("x end")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        (r'{"a": ["\ud83d"]}', "half a surrogate pair"),
        (r'{"\uDE00": 1}', "half a surrogate pair"),
        ("9" * 5000, "digits"),
        ("{", "Expecting"),
    ],
)
def test_json_that_no_file_can_hold_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_json(text)


def test_json_with_whole_pairs_is_read():
    assert parse_json(r'{"a": "\ud83d\ude00 \\ud800"}') == {"a": "\U0001f600 \\ud800"}
