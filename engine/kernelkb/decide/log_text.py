"""Prepares the text of a log for matching, and finds its first error line."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, TypedDict

_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Colours and links that compilers write to a terminal (ECMA-48: CSI, OSC and single codes)."""
_QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u00b4\u00ab\u00bb\u2039\u203a\u201e\u201c\u201d", "'")
)
"""The quotation marks of localised compilers; one character for one, so offsets stay."""
_RANK = re.compile(r"^\[rank\d+\]:", re.MULTILINE)
"""What torchrun puts before each line."""
_MAX_LINE_LENGTH = 300
"""Maximum number of characters of a log line in an answer."""
_LEAD = 80
"""Characters shown before a match that lies far inside a longer line."""

_ERROR = re.compile(
    r"^(?!.*\berrors?: 0\b)(?:"
    r".*(?:\berror(?: \w+)? ?[:#]|\bError:|\berreur\b|\bFehler:|错误|エラー|\bfatal\s*:|\bFATAL\b"
    r"|==ERROR==|NCCL WARN|undefined (?:reference|symbol)|[Cc]ommand not found"
    r"|Segmentation fault|\bAborted\b|terminate called|Assertion .* failed)"
    r"|(?:\[\w+\]:\s*)?[\w.]+(?:Error|Exception|Interrupt)\b(?::|$)"
    r")"
)
_CONSEQUENCE = re.compile(
    r"ninja: |CalledProcessError|returned non-zero exit|make(?:\[\d+\])?: \*\*\*|collect2: "
    r"|errors? detected in the compilation|aborted due to errors|error: command "
    r"|Error building extension|subprocess-exited-with-error|MSB3721|\[end of output\]"
    r"|ERROR: Failed building wheel"
)
"""Lines that only report that something else failed."""


class LogText(NamedTuple):
    """A log in two forms of the same length and the same lines."""

    shown: str
    """Without terminal codes and carriage returns."""
    matched: str
    """The same with ASCII quotation marks and spaces for the rank, for the regular expressions."""
    line_starts: list[int]
    """Offset of each line."""

    def line_at(self, offset: int) -> int:
        """Return the number of the line that holds a character, from 1."""
        return bisect_right(self.line_starts, offset)

    def quote_line(self, line: int, offset: int = 0) -> str:
        """Return a line, at most 300 characters of it around ``offset``."""
        start = self.line_starts[line - 1]
        text = self.shown[start:].partition("\n")[0]
        begin = max(0, offset - start - _LEAD) if len(text) > _MAX_LINE_LENGTH else 0
        return text[begin : begin + _MAX_LINE_LENGTH].strip()


class FirstError(TypedDict):
    """The first line of a log that reports an error, known or not."""

    line: int
    """Its number in what was read, from 1."""
    said: str


class LogExtent(TypedDict):
    """How much of a log was read."""

    lines: int
    skipped_characters: int
    """Characters in the middle of a long log that were not read."""


def clean_log(log: str) -> LogText:
    """Return a log without terminal codes and carriage returns."""
    shown = _TERMINAL_CODE.sub("", log).replace("\r\n", "\n").replace("\r", " ")
    starts = [0, *(match.end() for match in re.finditer("\n", shown))]
    matched = _RANK.sub(lambda rank: " " * len(rank[0]), shown).translate(_QUOTES)
    return LogText(shown, matched, starts)


def find_first_error(log: LogText) -> FirstError | None:
    """Return the first line that reports an error, or the first consequence of one, or None."""
    consequence = None
    for number, line in enumerate(log.shown.split("\n"), 1):
        if _CONSEQUENCE.search(line):
            consequence = consequence or number
        elif _ERROR.match(line):
            return {"line": number, "said": log.quote_line(number)}
    if consequence is None:
        return None
    return {"line": consequence, "said": log.quote_line(consequence)}
