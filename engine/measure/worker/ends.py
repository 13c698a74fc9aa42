"""What a runner can end in, and what it may say of it."""

from __future__ import annotations


class RunnerLost(Exception):
    """A runner ended, hung, grew too large or spoke out of turn; ``status`` says which.

    Attributes:
        who: The runner's name, so that nobody is blamed for another's end.
    """

    def __init__(self, status: str, detail: str, who: str) -> None:
        super().__init__(detail)
        self.who = who
        self.status = status
        self.detail = detail


class Refused(Exception):
    """The candidate reported an error of its own, in its words; nothing was lost."""


def printable(said: object) -> str:
    """Return what a candidate said as a line that cannot pretend to be another one."""
    lines = str(said)[:2000].splitlines()
    return " ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)
