"""Sizes and counts as people type them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.errors import BadValueError
from kernelkb.units import (
    format_minutes,
    parse_byte_count,
    parse_positive_number,
    parse_whole_number,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("49152", 49152),
        (49152, 49152),
        ("48KiB", 49152),
        ("48 kib", 49152),
        ("1.5MiB", 1572864),
        ("1GiB", 2**30),
        ("1e9", 10**9),
        ("100B", 100),
        ("101_376", 101376),
        ("128x64x2x3", 49152),
        ("128*64*2", 16384),
        ("0", 0),
    ],
)
def test_sizes_are_parsed(text, size):
    assert parse_byte_count("smem", text) == size


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("48KB", "write 48KiB or 48000"),
        ("48k", "write 48KiB or 48000"),
        ("1GB", "write 1GiB or 1000000000"),
        ("-1", "is not a size"),
        ("", "is not a size"),
        ("nan", "is not a size"),
        ("lots", "is not a size"),
        ("٣", "is not a size"),
        ("12parsec", "unknown unit"),
        ("0.5", "not a whole number of bytes"),
        ("1e400", "not a whole number of bytes"),
        ("999999999x999999999x999999999", "not a whole number of bytes"),
        ("9" * 5000, "not a whole number of bytes"),
    ],
)
def test_an_invalid_size_is_rejected_with_the_cure(text, cure):
    with pytest.raises(BadValueError, match=cure):
        parse_byte_count("smem", text)


@pytest.mark.parametrize("text", ["0", "1025", "1.5", "", "many", "-3", "9" * 5000])
def test_a_count_outside_its_range_is_refused(text):
    with pytest.raises(BadValueError, match="threads"):
        parse_whole_number("threads", text, 1, 1024)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e-300", "1e300", "much", ""])
def test_an_invalid_quantity_is_rejected(text):
    with pytest.raises(BadValueError, match="flop"):
        parse_positive_number("flop", text)


@given(st.text(max_size=30))
def test_any_text_is_a_size_or_a_refusal(text):
    with suppress(BadValueError):
        assert parse_byte_count("smem", text) >= 0


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(0.5, "30 s"), (2.5, "2.5 min"), (90, "90 min"), (390, "6.5 h"), (119855, "83 days")],
)
def test_a_long_time_is_told_in_hours_or_days(minutes, said):
    assert format_minutes(minutes) == said
