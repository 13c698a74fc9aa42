"""The ``kb`` command: dispatch to subcommands, whose modules are imported on demand."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from kernelkb.commands import COMMANDS, is_lab_command, spell_command
from kernelkb.errors import BadValueError, KbError, did_you_mean
from kernelkb.safety.untrusted_text import clean_stream

EXIT_STATUS = "exit status: 0 done, 1 problems found or a gate says stop, 2 could not run"

_SIGPIPE = 13  # POSIX; importing the module signal would cost half a millisecond


QUICK_COMMANDS = ("recommend", "diagnose", "occupancy", "roofline")
"""Commands that take milliseconds."""


_WATCHED_COMMANDS = ("build", "bench", "profile", "triage", "tune", "sweep")
"""Commands whose steps ``kb web`` shows while they run."""


def start() -> int:
    """Run ``kb`` as a process of its own.

    Quick commands run without garbage collection: their objects live until exit anyway, and
    collecting took a tenth of the time.
    """
    _prepare_streams()
    quick = sys.argv[1:2] and sys.argv[1] in QUICK_COMMANDS
    if quick:
        gc.disable()
    status = main()
    if quick:
        gc.freeze()
    try:
        sys.stdout.flush()
    except (AttributeError, OSError):  # main reported it; Python would, too, as it exits
        sys.stdout = None
    return status


def _prepare_streams() -> None:
    """Let every text be printed in any locale, and a terminal obey none of it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as by ``>&-``
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        else:
            clean_stream(name)


class CommandParser(argparse.ArgumentParser):
    """A parser that answers a wrong option itself, with its own usage and the nearest option."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse all arguments; what is left over is an error of this command, not of ``kb``.

        For a command with a default for ``program`` all words after ``--`` are the program and its
        arguments, and none is an option of ``kb``.
        """
        words, program = list(sys.argv[1:] if args is None else args), None
        if "program" in self._defaults and "--" in words:
            at = words.index("--")
            words, program = words[:at], words[at + 1 :]
        options, rest = super().parse_known_args(words, namespace)
        if program is not None:
            options.program = program
        if rest:
            offer = self._offer_option(rest)
            if not offer and "program" in self._defaults:
                offer = f"; a program stands behind --: {self.prog} -- python train.py"
            self.error(f"unrecognized arguments: {' '.join(rest)}{offer}")
        return options, rest

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is none of the choices, and name the nearest."""
        known = [str(choice) for choice in action.choices or ()]
        if known and value not in (action.choices or ()):
            offer = did_you_mean(str(value), known) or f" (choose from {', '.join(known)})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{offer}")

    def _offer_option(self, rest: Iterable[str]) -> str:
        wrong = next((word.partition("=")[0] for word in rest if word.startswith("-")), None)
        return did_you_mean(wrong, self._option_string_actions) if wrong else ""


def build_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of ``kb`` with these commands; each imports its module."""
    parser = CommandParser(
        prog="kb",
        description="Turn kernel measurements into the next fix to try.",
        epilog=EXIT_STATUS,
    )
    commands = parser.add_subparsers(prog="kb", dest="command", required=True, metavar="COMMAND")
    for name in names:
        module_name, _, summary = COMMANDS[name]
        module = import_module(f"kernelkb.cli.{module_name}")
        run = getattr(module, f"run_{name}")
        command = commands.add_parser(
            name,
            prog=spell_command(name),
            help=summary,
            description=_dedent(run.__doc__),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        getattr(module, f"add_{name}_arguments")(command)
        if name != "worker":  # it serves, and answers nothing
            _add_json_option(command)
        command.set_defaults(run=run)
    return parser


def _add_json_option(command: argparse.ArgumentParser) -> None:
    """Add ``--json`` to a command, or to each of its verbs."""
    verbs = [one for one in command._actions if isinstance(one, argparse._SubParsersAction)]
    for each in verbs[0].choices.values() if verbs else [command]:
        each.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _dedent(docstring: str) -> str:
    """Return a docstring without its indentation; importing inspect takes about 10 ms."""
    first, _, rest = docstring.partition("\n")
    return f"{first}\n{chr(10).join(line.removeprefix('    ') for line in rest.split(chr(10)))}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``kb``. Exit 0 done, 1 problems found or a gate says stop, 2 it could not run."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run_command(words)
    except KbError as error:
        sys.stderr.write("".join(f"kb: {line}\n" for line in str(error).splitlines()))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader closed the pipe: exit as if killed by SIGPIPE
        sys.stdout = None
        return 128 + _SIGPIPE
    except OSError as error:
        return _report_storage_error(error)


def _run_command(words: list[str]) -> int:
    """Run the command that the words name, and print all of it before this returns or raises."""
    _refuse_odd_words(words)
    if words[:1] == ["lab"] and is_lab_command("".join(words[1:2])):
        words = words[1:]
    try:
        if not words or words[0] not in COMMANDS:
            from kernelkb.cli.front_page import answer_without_command

            return answer_without_command(words)
        options = build_parser(words[:1]).parse_args(words)
        _warn_of_unread_knowledge()
        if words[0] in _WATCHED_COMMANDS:
            return _run_watched(options, words)
        return int(options.run(options))
    finally:
        sys.stdout.flush()


def _run_watched(options: argparse.Namespace, words: list[str]) -> int:
    """Run a command that takes long, so that other processes see how far it is."""
    from pathlib import Path

    from kernelkb.record.running import publish_progress
    from kernelkb.safety.paths import project_root

    shown = [word for word in words[:6] if not word.startswith("-")]
    with publish_progress(Path(project_root()), " ".join(shown), can_stop=True):
        return int(options.run(options))


def _refuse_odd_words(words: Iterable[str]) -> None:
    """Reject what argparse or a file of ours cannot hold.

    Raises:
        BadValueError: A word is not UTF-8, or has ``--`` as its value, which Python 3.11 drops.
    """
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise BadValueError(f"{word!r} is not UTF-8; rename the file, or write it in UTF-8")
        if word.startswith("--") and word.endswith("=--"):
            raise BadValueError(f"{word!r} has no value; leave it out, or give it one")


def _warn_of_unread_knowledge() -> None:
    """Say in one line that an installed ``kb`` does not read the knowledge of a source tree."""
    from kernelkb.safety.paths import find_unread_knowledge

    folder = find_unread_knowledge()
    if folder is not None:
        from kernelkb.errors import format_pip_command

        install = format_pip_command("-e", os.path.dirname(folder))  # noqa: PTH120 no pathlib here
        sys.stderr.write(
            f"kb: {folder} is not read: it is that of a source tree of KernelKB, and this kb has "
            f"its own; to use the tree's, {install}\n"
        )


def _report_storage_error(error: OSError) -> int:
    """Print in one line that a disk is full or a file cannot be written; else raise the error."""
    from kernelkb.safety.storage import find_storage_gap

    gap = find_storage_gap(error)
    if gap is None:
        raise error
    sys.stderr.write(f"kb: {gap}\n")
    return 2
