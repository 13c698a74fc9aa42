"""Text that compilers, kernels and profilers wrote: a quotation, never words of our own."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|[@-Z\\-_])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# Controls but tab and newline; marks that turn the direction of text or that nobody sees; the
# block of invisible letters; halves of characters, which no JSON may hold.
_HIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
MAX_TEXT_LENGTH = 4000


def sanitize_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return text without colours, controls and hidden characters, cut in its middle."""
    if (
        len(text) <= max_length and text.isprintable()
    ):  # as nearly all of it is: there is nothing to find
        return text
    bare = _SURROGATES.sub("\ufffd", _HIDDEN_CHARACTERS.sub("", _ESCAPES.sub("", text)))
    if len(bare) <= max_length:
        return bare
    head = (max_length - 5) * 2 // 3
    return f"{bare[:head]} ... {bare[len(bare) - (max_length - 5 - head) :]}"


def to_one_line(text: str, max_length: int = 600) -> str:
    """Return the same in one line, its lines apart by semicolons."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return sanitize_text("; ".join(line for line in lines if line), max_length)


def quote_excerpt(text: str, max_length: int = 160) -> str:
    """Return an excerpt in quotation marks that it cannot close itself."""
    return f'"{to_one_line(text, max_length).replace(chr(34), chr(39))}"'
