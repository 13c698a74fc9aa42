"""Every error that KernelKB raises on purpose.

* KbError                       its text is fit to show to an agent: what happened, then the cure
    + KnowledgeError            a YAML file is wrong; carries one Problem per complaint
    + UnknownNameError          the caller named something that no file defines
    + BadValueError             the caller gave a value that its metric cannot have
    + EnvironmentGapError       this machine lacks something: a compiler, torch, a GPU, ncu
    + SessionError              a session file cannot be read or written; may carry Problems
    + DatabaseError             the measurement database cannot be read or written
    + OutsideError              a server keeps out of a path; an OSError, too

A kernel that fails to compile, crashes, hangs or is wrong is a result with a status, not an error.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One complaint about one place in one file. Sorts in file order."""

    path: str
    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.field}: {self.message}"


class KbError(Exception):
    """Base of every error raised on purpose."""


class KnowledgeError(KbError):
    """One or more YAML files are wrong. ``problems`` lists every complaint, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


class UnknownNameError(KbError):
    """The caller named a metric, kernel, variant, device or entry that does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str], listed_by: str) -> None:
        names = sorted(known)
        self.suggestion = offer = did_you_mean(name, names)
        if not offer and names and len(names) <= 8:
            offer = f"; known: {', '.join(names)}"
        self.complaint = f"unknown {kind} {name!r}{offer}"
        super().__init__(f"{self.complaint}; `{listed_by}` lists them")


class BadValueError(KbError):
    """A value is outside what its metric can be, or is not a number at all."""


class EnvironmentGapError(KbError):
    """This machine lacks something that the command needs; the text ends with the cure."""

    def __init__(self, gap: str, cure: str) -> None:
        self.gap, self.cure = gap, cure
        super().__init__(f"{gap}; {cure}")


class SessionError(KbError):
    """A session file cannot be read or written. ``problems`` lists what is wrong inside of it."""

    def __init__(self, message: str, problems: Iterable[Problem] = ()) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__(message)


class DatabaseError(KbError):
    """The measurement database cannot be read or written; what was being added is not in it."""


class ForbiddenPathError(KbError, PermissionError):
    """A server does not open a path, as if it could not: it leads elsewhere, or is no file."""

    def __init__(self, path: str, reason: str, cure: str) -> None:
        PermissionError.__init__(self, errno.EACCES, f"{reason}; {cure}", path)

    def __str__(self) -> str:
        return f"{self.filename!r} is {self.strerror}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a near miss, else ``""``."""
    from difflib import get_close_matches  # only wanted when something is already wrong

    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
