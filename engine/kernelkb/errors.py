"""Every error that KernelKB raises on purpose.

* KbError                       its text is shown as it is: what happened, then the cure
    + KnowledgeError            a YAML file is wrong; carries one Problem per complaint
    + UnknownNameError          the caller named something that does not exist
    + BadValueError             the caller gave a value that its metric cannot have
    + EnvironmentGapError       this machine lacks something: a compiler, torch, a GPU, ncu
    + SessionError              a session file cannot be read or written; may carry Problems
    + DatabaseError             the measurement database cannot be read or written
    + ForbiddenPathError        a path outside the workspace; also a PermissionError

An error may carry a ``NextStep``: a command that helps. The CLI prints it as ``kb show metrics``,
the MCP server as ``read_entry(id='metrics')``. A cure that installs a package has its command from
here, the one place that says ``pip install``; KernelKB is on no package index, so no cure names it:
the packages of an extra are named instead.

A kernel that fails to compile, crashes, hangs or gives wrong outputs is a result with a status.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kernelkb.commands import spell_command


class Problem(NamedTuple):
    """One complaint about one place in one file. Sorts in file order."""

    path: str
    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.field}: {self.message}"


_POSITIONAL_ARGUMENTS = ("id", "kind", "kernel", "name", "goal")

_KERNEL_OPTIONS = (("session new", "kernel"), ("recommend", "kernel"))
"""Where a positional argument of other commands is an option."""


class NextStep(NamedTuple):
    """A command that helps after an error; each front end writes it in its own way."""

    verb: str
    """A command of ``kb``, such as ``show`` or ``session list``."""
    arguments: Mapping[str, str | None]
    """By name; None stands for a value that only the caller knows, empty text for a mere flag."""
    effect: str
    """What the command does, such as ``lists them``."""

    def as_command(self) -> str:
        """Return the shell command in backticks, then its effect."""
        return f"`{self.as_shell_words()}` {self.effect}"

    def as_shell_words(self) -> str:
        """Return the shell command alone, to be run as it is if no argument is None."""
        words = [spell_command(self.verb)]
        for name, value in self.arguments.items():
            is_option = name not in _POSITIONAL_ARGUMENTS or (self.verb, name) in _KERNEL_OPTIONS
            option = [f"--{name.replace('_', '-')}"] if is_option else []
            word = [] if value == "" else [name.upper() if value is None else _quote_word(value)]
            words += [*option, *word]
        return " ".join(words)


def _quote_word(word: str) -> str:
    """Return a word as a shell takes it; ``shlex`` says the same, and takes time to import."""
    plain = word and all(letter.isalnum() or letter in "_@%+=:,./-" for letter in word)
    return word if plain and word.isascii() else "'" + word.replace("'", "'\"'\"'") + "'"


class KbError(Exception):
    """Base of every error raised on purpose.

    ``str`` gives the text with the next step as a shell command.
    """

    next_step: NextStep | None = None

    def __init__(self, message: str = "", next_step: NextStep | None = None) -> None:
        super().__init__(message)
        self.next_step = next_step

    def __str__(self) -> str:
        return self.format_text(NextStep.as_command)

    def format_text(self, format_step: Callable[[NextStep], str]) -> str:
        """Return what happened and the cure, with the next step in a front end's own notation.

        Notes (``add_note``) follow what happened.
        """
        text = "; ".join([super().__str__(), *getattr(self, "__notes__", ())])
        return f"{text}; {format_step(self.next_step)}" if self.next_step else text

    def __reduce__(self) -> tuple[Any, ...]:  # workers send errors; args are not those of __init__
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[KbError], args: tuple[Any, ...], fields: dict[str, Any]) -> KbError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class KnowledgeError(KbError):
    """One or more YAML files are invalid. ``problems`` lists every complaint, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


class UnknownNameError(KbError):
    """The caller named a metric, kernel, variant, device or entry that does not exist.

    Args:
        kind: What was named, such as ``metric``.
        name: The name that does not exist.
        known: The names that do.
        verb: The command that lists them.
        meant: The name that others use such a word for; None: no such use is known.
        **arguments: Of that command; None stands for a value that only the caller knows.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        verb: str,
        meant: str | None = None,
        /,
        **arguments: str | None,
    ) -> None:
        names = sorted(known)
        offer = f" (did you mean {meant!r}?)" if meant else did_you_mean(name, names)
        self.suggestion = offer
        if not offer and names:
            few = len(names) <= _FEW_NAMES
            offer = f"; known: {', '.join(names)}" if few else f"; closest: {_find(name, names)!r}"
        self.denial = f"unknown {kind} {name!r}"
        self.complaint = f"{self.denial}{offer}"
        super().__init__(self.complaint, NextStep(verb, arguments, "lists them"))


class BadValueError(KbError):
    """A value is outside its range, not a number, or not what the argument accepts."""


_INSPECT_MACHINE = NextStep("env", {}, "lists what this machine lacks")


class EnvironmentGapError(KbError):
    """This machine lacks something that the command needs; the text ends with the cure.

    Without a cure of its own it names ``kb env``, which lists what the machine lacks.
    """

    def __init__(self, gap: str, cure: str | None, next_step: NextStep | None = None) -> None:
        self.gap, self.cure = gap, cure
        text = f"{gap}; {cure}" if cure else gap
        super().__init__(text, next_step if next_step or cure else _INSPECT_MACHINE)


class SessionError(KbError):
    """A session file cannot be read or written. ``problems`` lists the mistakes in it."""

    def __init__(
        self, message: str, problems: Iterable[Problem] = (), next_step: NextStep | None = None
    ) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__(message, next_step)


class DatabaseError(KbError):
    """The measurement database cannot be read or written; a failed write adds nothing."""


class ForbiddenPathError(KbError, PermissionError):
    """The path is outside the workspace of this server, or is not a regular file."""

    def __init__(self, path: str, reason: str, cure: str) -> None:
        PermissionError.__init__(self, errno.EACCES, f"{reason}; {cure}", path)

    def format_text(self, format_step: Callable[[NextStep], str]) -> str:  # noqa: ARG002 none
        """Return the path and why it is not opened; it has no next step."""
        return f"{self.filename!r} is {self.strerror}"

    def __reduce__(self) -> tuple[Any, ...]:
        reason, _, cure = str(self.strerror).rpartition("; ")
        return type(self), (self.filename, reason, cure)


_FEW_NAMES = 8
"""Most names that an error lists."""
_NEAR = 0.6
"""Likeness of two words from which one was meant (that of difflib)."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a near miss, or a name's own word, else ``""``."""
    names = list(known)
    close = _find(word, names, _NEAR) or _find_by_word(word, names)
    return f" (did you mean {close!r}?)" if close else ""


def _find(word: str, names: list[str], likeness: float = 0.0) -> str:
    """Return the name that is most like a word, at least so much; empty without one."""
    from difflib import get_close_matches  # slow to import, and only needed for an error

    return next(iter(get_close_matches(word, names, 1, likeness)), "")


def _find_by_word(word: str, names: list[str]) -> str:
    """Return the name that alone has ``word`` as one of its words; empty without one."""
    wanted = word.lower().replace("_", "-")
    found = [name for name in names if wanted in name.lower().replace("_", "-").split("-")]
    return found[0] if len(found) == 1 else ""


def format_install_command(extra: str, python: str | None = None) -> str:
    """Return the shell command that installs the packages of an extra of KernelKB.

    Args:
        extra: An extra of ``pyproject.toml``, such as ``tune``.
        python: The interpreter that is to have them; by default the one that runs this.
    """
    from importlib.metadata import PackageNotFoundError, requires  # 10 ms, only for a cure

    try:
        lines = [line.partition(";") for line in requires("kernelkb") or ()]
    except PackageNotFoundError:  # run from a folder of sources
        lines = []
    endings = (f"extra == '{extra}'", f'extra == "{extra}"')
    found = [name.strip() for name, _, marker in lines if marker.strip().endswith(endings)]
    if not found:
        return f"install what pyproject.toml of KernelKB lists for the extra {extra}"
    return format_pip_command(*found, python=python)


def format_pip_command(*requirements: str, python: str | None = None) -> str:
    """Return the shell command that installs packages from an index.

    Args:
        *requirements: Such as ``scipy>=1.13``.
        python: The interpreter that is to have them; by default the one that runs this.
    """
    from shlex import join

    return join([python or sys.executable or "python3", "-m", "pip", "install", *requirements])
