"""The ``kb`` command: one module for each subcommand, imported when it is asked for."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from kernelkb.errors import KbError

COMMANDS = {
    "recommend": "what to fix, or what to measure, from a few numbers",
    "triage": "take a kernel through the whole loop: build, check, bench, profile, recommend",
    "build": "compile a variant of a kernel",
    "bench": "check and time a variant against the reference",
    "profile": "collect the metrics that explain a variant",
    "init": "set up KernelKB in your own project, for your own kernel",
    "env": "what this machine can build and measure, and how to mend it",
    "occupancy": "how many blocks fit on an SM, what limits them, and the next step",
    "roofline": "the fastest that a GPU could do some work, and which roof binds",
    "diagnose": "name what went wrong in the log of a build, a load or a run",
    "check": "validate every knowledge file, kernel and session",
    "search": "find entries of the knowledge by words, misspelt ones too",
    "graph": "draw a tree or the surroundings of an entry, with the path that metrics take",
    "show": "list and print what the knowledge base holds",
    "quickref": "the quick reference, generated from the knowledge",
    "guide": "how to work with all this, for an assistant; writes the Agent Skill",
    "learn": "turn sessions into calibrated predictions, or take one session out again",
    "session": "plan, log and show what was done and learnt",
    "history": "what was measured of a kernel, newest first",
    "compare": "how many times as fast is one measurement as another, with its interval",
    "best": "the fastest valid measurement of each kernel, workload and device",
    "regress": "fail on a confirmed regression, promote a confirmed improvement",
    "export": "write all measurements to a file, also for other tools",
    "import": "add the measurements of a file, also from other tools",
}

_MODULE_NAMES = {"import": "import_"}
"""Where a command's name is a word of Python's."""

_SIGPIPE = 13  # by POSIX; the module signal costs half a millisecond


QUICK_COMMANDS = ("recommend", "diagnose", "occupancy", "roofline")
"""Commands that end within milliseconds."""


def start() -> int:
    """Run ``kb`` as a process of its own.

    What a quick command makes lives until its end, so looking for garbage, which Python does once
    more while it exits, would take a tenth of the time for nothing.
    """
    quick = sys.argv[1:2] and sys.argv[1] in QUICK_COMMANDS
    if quick:
        gc.disable()
    status = main()
    if quick:
        gc.freeze()
    return status


def build_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of ``kb`` with these commands; each costs the import of its module."""
    parser = argparse.ArgumentParser(
        prog="kb",
        description="Turn kernel measurements into the next fix to try.",
        epilog="exit status: 0 done, 1 problems found or a gate says stop, 2 could not run",
    )
    commands = parser.add_subparsers(prog="kb", dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = import_module(f"kernelkb.cli.{_MODULE_NAMES.get(name, name)}")
        command = commands.add_parser(name, help=COMMANDS[name], description=module.__doc__)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        module.arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``kb``. Exit 0 done, 1 problems found or a gate says stop, 2 it could not run."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = [word for word in words[:1] if word in COMMANDS]
    parser = build_parser(chosen or COMMANDS)
    options = parser.parse_args(words)
    try:
        return int(options.run(options))
    except KbError as error:
        sys.stderr.write("".join(f"kb: {line}\n" for line in str(error).splitlines()))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read us has gone; say so like any program that is cut off
        sys.stdout = None
        return 128 + _SIGPIPE
