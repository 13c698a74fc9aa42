"""Defines the steps that an answer names: a command, an edit at its place, or advice in words.

Each front end writes them in its own way, and only when it prints: ``render.text.next_steps`` for
the shell, the server's ``recommend_view`` as tool calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kernelkb.errors import NextStep

if TYPE_CHECKING:
    from kernelkb.model.answers.source_place import ChangePlace


class ToolCommand(NamedTuple):
    """A command of another program than ``kb``, such as a profiler's."""

    line: str
    """As the knowledge words it, with the kernel's name; ``<your command>`` and the like stand for
    what only the caller knows."""
    verb: str | None
    """The command of ``kb`` that does the same for a kernel of the project; None: none does."""


class FixEdit(NamedTuple):
    """The one change to make."""

    fix: str
    do: str
    """The change in words."""
    place: ChangePlace | None = None
    """None for a kernel that is not in the project."""


class CallerEdit(NamedTuple):
    """A change of the program around the kernel."""

    fix: str
    do: str


class KeepCondition(NamedTuple):
    """What must hold after the change, or it is taken back."""

    expect: str
    """A comparison of a metric with its limit."""


class Sentence(NamedTuple):
    """Advice in words."""

    text: str
    needs: Literal["numbers", "source"] | None = None
    """What only the caller can bring before there is more to say: the numbers of a profiler, or the
    kernel's source; None: nothing."""


Step: TypeAlias = NextStep | ToolCommand | FixEdit | CallerEdit | KeepCondition | Sentence
