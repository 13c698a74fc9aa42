"""Finds the error codes of the CUDA runtime and driver in a log, by name, number or text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, TypedDict

from kernelkb.decide.log_text import LogText

_DISTINCT_WORDS = 4
"""Words from which a text of cudaGetErrorString is taken without a word about CUDA before it."""


class CudaErrorRow(TypedDict):
    """One code of ``cudaError_t`` and ``CUresult``."""

    code: int
    names: list[str]
    text: str
    """What cudaGetErrorString returns."""


class FoundError(NamedTuple):
    """A code in a log."""

    row: CudaErrorRow
    match: re.Match[str]
    """Its group ``error`` is the name, the number or the text."""


def find_cuda_errors(rows: Iterable[CudaErrorRow], text: LogText) -> dict[int, list[FoundError]]:
    """Return the errors of each line, by its number.

    Args:
        rows: The codes to look for.
        text: The log.
    """
    known = {key: row for row in rows for key in _list_keys(row)}
    found: dict[int, list[FoundError]] = {}
    for pattern in _build_patterns(tuple(known)):
        for match in pattern.finditer(text.matched):
            row = known[match["error"].lower()]
            found.setdefault(text.line_at(match.start("error")), []).append(FoundError(row, match))
    return found


def describe_cuda_error(rows: Iterable[CudaErrorRow], said: str) -> str | None:
    """Return the code, name and text of what a log says; None where it is no code of ``rows``."""
    row = next((row for row in rows if said.lower() in _list_keys(row)), None)
    return f"{row['names'][0]} ({row['code']}): {row['text']}." if row else None


def _list_keys(row: CudaErrorRow) -> list[str]:
    return [str(row["code"]), row["text"].lower(), *(name.lower() for name in row["names"])]


@lru_cache(maxsize=4)
def _build_patterns(known: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return one pattern for each way in which programs print an error."""
    keys = sorted(known, key=len, reverse=True)
    if not keys:
        return ()
    numbers = _join(key for key in keys if key.isdigit())
    names = _join(key for key in keys if key.startswith("cuda") and " " not in key)
    texts = [key for key in keys if " " in key]
    long = _join(key for key in texts if len(key.split()) >= _DISTINCT_WORDS)
    short = _join(key for key in texts if len(key.split()) < _DISTINCT_WORDS)
    end = r"(?=\s*(?:[-:;,.!)\]'\"(]|$|at\b|in\b))"
    return tuple(
        re.compile(pattern, re.MULTILINE)
        for pattern in (
            # A name in source code that a compiler prints is no error of a run.
            rf"(?<![\w\"])(?<!== )(?<!!= )(?<!case )(?<!return )(?i:(?P<error>{names}))\b(?!\")",
            rf"(?<!\w)(?i:(?P<error>{long}))(?!\w)",
            # A path such as /usr/local/cuda or cuda.h that another tool names is no call.
            r"(?:(?i:(?<!/)cuda|gpuassert)|\b(?!cu(?:BLAS|DNN|FFT|SPARSE|SOLVER|RAND|TENSOR))cu[A-Z]\w)"
            rf"[^\n]{{0,160}}?(?:(?<!\.h)[:(] ?|')(?i:(?P<error>{short}))(?!\w)"
            r"(?! (?:when|on|in)\b)",
            # The exit status of nvcc, a line number and a version are no codes.
            r"(?<![/\w])(?i:cuda)\w*[^\n]{0,40}?\b(?i:errors?|failure|failed|fail)\b"
            rf"(?:(?!exit)[^\n\d]){{0,24}}?(?<![:./\w-])(?<!line )\(?(?P<error>{numbers})\b{end}",
            r"\b(?!cu(?:BLAS|DNN|FFT|SPARSE|SOLVER|RAND|TENSOR))cu(?:da)?[A-Z]\w+(?:\(\w*\))?"
            r"(?::| failed| returned| error|)(?: with)?(?: error| code| status)*[ =:(]{1,3}"
            rf"(?P<error>{numbers})\b{end}",
            r"(?:driver API error No\. |\[(?=\d+\] Call to cu)|\(code (?=\d+, ERROR_))"
            rf"(?P<error>{numbers})\b",
        )
    )


def _join(keys: Iterable[str]) -> str:
    return "|".join(map(re.escape, keys)) or "(?!)"
