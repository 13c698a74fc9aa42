"""Brackets in C text: where one closes, and the parts between commas."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_IGNORED_TEXT = re.compile(
    r'R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_ONE_WORD_STRING = re.compile(r'"\w+"')


def strip_comments(text: str) -> str:
    """Return C text without comments, preprocessor lines and strings of more than one word."""
    return _IGNORED_TEXT.sub(
        lambda found: found[0] if _ONE_WORD_STRING.fullmatch(found[0]) else " ", text
    )


def find_bracket_end(text: str, at: int) -> int:
    """Return the place after the bracket that closes the one at ``at``, else the text's end."""
    left, right = text[at], _PAIRS[text[at]]
    depth = 0
    for place in range(at, len(text)):
        depth += {left: 1, right: -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def split_at_commas(text: str) -> Iterator[str]:
    """Yield what stands between the commas that no bracket holds."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        depth += (char in _PAIRS) - (char in _PAIRS.values())
        if char == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()
