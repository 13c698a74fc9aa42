"""What ``kb`` answers without a command: where work stands, its help, or the nearest command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import kernelkb
from kernelkb.cli import EXIT_STATUS
from kernelkb.commands import COMMANDS, GROUPS, LAB_GROUPS, is_lab_command, spell_command
from kernelkb.errors import BadValueError, KbError, did_you_mean
from kernelkb.safety.paths import project_root

_DESCRIPTION = "Turn kernel measurements into the next fix to try."
_MAX_KERNELS = 6
"""Names of kernels in the line of the project; the others are counted."""


def answer_without_command(words: Sequence[str]) -> int:
    """Answer what names no command: nothing, ``--help``, ``--version``, ``lab``, or a mistake.

    Raises:
        BadValueError: There is no such command or option; the text names the nearest.
    """
    lines: Iterator[str]
    if not words:
        lines = _iter_status_lines()
    elif words[0] in ("-h", "--help", "help"):
        lines = _iter_help_lines()
    elif words[0] == "--version":
        lines = iter([f"kb {kernelkb.__version__} in {kernelkb.__path__[0]}"])
    elif words[0] == "lab" and words[1:2] in ([], ["-h"], ["--help"], ["help"]):
        lines = _iter_lab_lines()
    else:
        raise BadValueError(_describe_mistake(words))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _describe_mistake(words: Sequence[str]) -> str:
    """Return what is wrong with the first words, and the nearest command."""
    if words[0].startswith("-"):
        return f"{words[0]} names no command; options follow it: kb COMMAND --help"
    word = words[1] if words[0] == "lab" else words[0]
    if word in COMMANDS:  # below lab, where only the seldom ones stand
        return f"kb lab has no {word}; it is {spell_command(word)}"
    offer = did_you_mean(word, COMMANDS)
    if offer:
        near = offer.split("'")[1]
        offer = offer.replace(repr(near), repr(spell_command(near)))
    where = "kb lab --help" if words[0] == "lab" else "kb --help"
    return f"unknown command {word!r}{offer}; {where} lists them"


def _iter_help_lines() -> Iterator[str]:
    yield "usage: kb COMMAND ..."
    yield from (
        "",
        _DESCRIPTION,
        "kb alone says where work stands; kb COMMAND --help has examples.",
    )
    yield from _iter_groups(GROUPS)
    yield ""
    yield "seldom needed: kb lab NAME, and kb lab --help tells what each does"
    yield f"  {', '.join(filter(is_lab_command, COMMANDS))}"
    yield from ("", "options: -h, --help; --version", EXIT_STATUS)


def _iter_lab_lines() -> Iterator[str]:
    yield "usage: kb lab COMMAND ..."
    yield from ("", "What is seldom needed, and what measures KernelKB itself.")
    yield from _iter_groups(LAB_GROUPS)
    yield from ("", EXIT_STATUS)


def _iter_groups(groups: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, COMMANDS))
    for group, about in groups.items():
        yield from ("", f"{group}: {about}")
        for name, (_, own_group, summary) in COMMANDS.items():
            if own_group == group:
                yield f"  {name:{width}}  {summary}"


def _iter_status_lines() -> Iterator[str]:
    """Yield five lines: what this is, the project, the open session, what comes next, the help."""
    yield f"KernelKB {kernelkb.__version__}: {_DESCRIPTION[0].lower()}{_DESCRIPTION[1:-1]}"
    project = project_root()
    kernels = _list_own_kernels(project)
    shown = ", ".join(kernels[:_MAX_KERNELS])
    more = f" and {len(kernels) - _MAX_KERNELS} more" if len(kernels) > _MAX_KERNELS else ""
    yield f"project: {project}, {f'kernels {shown}{more}' if kernels else 'no kernels yet'}"
    session = _find_session(project)
    yield f"session: {session or 'none is open'}"
    yield f"next: {_choose_next(kernels, session)}"
    yield "help: kb --help lists the commands, kb search WORDS finds one"


def _list_own_kernels(project: str) -> list[str]:
    """Return the names of the project's kernels, by their folders alone: nothing is read."""
    folder = os.path.join(project, "kernels")  # noqa: PTH118 no pathlib here
    try:
        entries = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []
    return [
        name
        for name in entries
        if name.isprintable() and os.path.isfile(os.path.join(folder, name, "kernel.yaml"))  # noqa: PTH113, PTH118
    ]


def _find_session(project: str) -> str | None:
    """Return the open session; only where one may be open is a file of it read."""
    if not os.path.lexists(os.path.join(project, ".kb", "session")):  # noqa: PTH118
        return None
    from pathlib import Path

    from kernelkb.record.sessions import find_open_session

    try:
        return find_open_session(Path(project))
    except KbError:
        return None


def _choose_next(kernels: Sequence[str], session: str | None) -> str:
    if session:
        return "kb session show --brief says where its work stands"
    if kernels:
        return f"kb triage {kernels[0]} takes it through the whole loop; kb env checks the machine"
    return "kb init FILE sets up your kernel; kb triage row_softmax shows the loop on a shipped one"
