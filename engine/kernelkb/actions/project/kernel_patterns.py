"""Matches the names of kernels with a regular expression that a user gave."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection

from kernelkb.errors import BadValueError

_SEARCH_SCRIPT = """
import json, re, sys
pattern, names = json.load(sys.stdin)
json.dump([name for name in names if re.search(pattern, name)], sys.stdout)
"""
_SEARCH_TIMEOUT_S = 2.0
"""A pattern that backtracks exponentially is stopped; other patterns take milliseconds."""


def compile_pattern(only: str | None) -> re.Pattern[str]:
    """Return ``--kernel`` as a pattern; one that matches everything by default.

    Raises:
        BadValueError: It is no regular expression.
    """
    try:
        return re.compile(only or "")
    except re.error as error:
        raise BadValueError(f"--kernel {only!r} is not a regular expression: {error}") from error


def match_names(pattern: re.Pattern[str], names: Collection[str]) -> set[str]:
    """Return the names that match a pattern.

    A pattern with repetitions can take exponential time, and a running match cannot be stopped, so
    it runs in a process of its own.

    Raises:
        BadValueError: The match took too long.
    """
    if not re.search(r"[*+?{]", pattern.pattern):
        return {name for name in names if pattern.search(name)}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH_SCRIPT],
            input=json.dumps([pattern.pattern, list(names)]),
            capture_output=True,
            text=True,
            check=True,
            timeout=_SEARCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BadValueError(
            f"--kernel {pattern.pattern!r} takes longer than {_SEARCH_TIMEOUT_S:g} s to match; "
            f"remove nested repetitions"
        ) from error
    return set(json.loads(done.stdout))
