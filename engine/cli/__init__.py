"""The ``kb`` command: dispatch to subcommands, whose modules are imported on demand."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from kernelkb.errors import KbError

COMMANDS = {
    "recommend": "the next fix, or the next measurement, from a few numbers",
    "report": "a report of Nsight Compute as one HTML page: causes, source and machine code",
    "triage": "take a kernel through the whole loop: build, check, bench, profile, recommend",
    "build": "compile a variant of a kernel",
    "bench": "check and time a variant against the reference",
    "tune": "search the configurations of a tunable variant for the fastest",
    "sweep": "check and time many kernels, or a level of KernelBench, on all GPUs",
    "worker": "serve the GPUs of this host to kb tune --workers on another one",
    "profile": "collect the metrics that explain a variant",
    "init": "set up KernelKB in your own project, for your own kernel",
    "env": "what this machine can build and measure, with a cure for every gap",
    "occupancy": "how many blocks fit on an SM, what limits them, and the next step",
    "roofline": "the shortest possible time of some work on a GPU, and which roof binds",
    "diagnose": "name known failures in the log of a build, a load or a run",
    "check": "validate every knowledge file, kernel and session",
    "search": "find knowledge entries by words, misspelt ones too",
    "graph": "draw a decision tree or an entry's neighbours, with the path taken",
    "show": "list and print knowledge entries",
    "quickref": "the quick reference, generated from the knowledge",
    "guide": "how an assistant works with KernelKB; writes the Agent Skill",
    "learn": "calibrate predictions from sessions; leave one out again",
    "session": "plan, log, show and review work sessions",
    "zoo": "pairs of kernels that differ by one change: list them, record them on your GPU",
    "score": "how often the advice was right on measured pairs, beside Nsight Compute's rules",
    "log": "every state of a kernel that was built, as a tree, and what each change gave",
    "diff": "what differs between two attempts: time, machine code, metrics, source",
    "restore": "write a state of a variant back, after keeping what is there now",
    "history": "recorded measurements of a kernel, newest first",
    "compare": "ratio of two measurements, with its interval; or what changed between two reports",
    "best": "the fastest valid measurement of each kernel, workload and device",
    "regress": "fail on a confirmed regression, promote a confirmed improvement",
    "export": "write all measurements to a file, also for other tools",
    "import": "add the measurements of a file of kb export",
}

_MODULES = {
    "build": "kernels",
    "bench": "kernels",
    "profile": "kernels",
    "triage": "kernels",
    "init": "project",
    "env": "project",
    "occupancy": "calculators",
    "roofline": "calculators",
    "check": "knowledge",
    "show": "knowledge",
    "search": "knowledge",
    "graph": "knowledge",
    "quickref": "generated",
    "guide": "generated",
    "log": "attempts",
    "diff": "attempts",
    "restore": "attempts",
    "tune": "tune",
    "best": "history",
    "compare": "history",
    "regress": "history",
    "export": "history",
    "import": "history",
}
"""The module of each command that shares one; every other command has a module of its name.

A module defines ``add_NAME_arguments(parser)`` and ``run_NAME(options)`` for each of its commands;
the docstring of ``run_NAME`` is the description that ``--help`` prints.
"""

_SIGPIPE = 13  # POSIX; importing the module signal would cost half a millisecond


QUICK_COMMANDS = ("recommend", "diagnose", "occupancy", "roofline")
"""Commands that take milliseconds."""


def start() -> int:
    """Run ``kb`` as a process of its own.

    Quick commands run without garbage collection: their objects live until exit anyway, and
    collecting took a tenth of the time.
    """
    quick = sys.argv[1:2] and sys.argv[1] in QUICK_COMMANDS
    if quick:
        gc.disable()
    status = main()
    if quick:
        gc.freeze()
    return status


def build_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of ``kb`` with these commands; each imports its module."""
    parser = argparse.ArgumentParser(
        prog="kb",
        description="Turn kernel measurements into the next fix to try.",
        epilog="exit status: 0 done, 1 problems found or a gate says stop, 2 could not run",
    )
    commands = parser.add_subparsers(prog="kb", dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = import_module(f"kernelkb.cli.{_MODULES.get(name, name)}")
        run = getattr(module, f"run_{name}")
        command = commands.add_parser(name, help=COMMANDS[name], description=_dedent(run.__doc__))
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        getattr(module, f"add_{name}_arguments")(command)
        command.set_defaults(run=run)
    return parser


def _dedent(docstring: str) -> str:
    """Return a docstring without its indentation; importing inspect takes about 10 ms."""
    first, _, rest = docstring.partition("\n")
    return f"{first}\n{chr(10).join(line.removeprefix('    ') for line in rest.split(chr(10)))}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``kb``. Exit 0 done, 1 problems found or a gate says stop, 2 it could not run."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = [word for word in words[:1] if word in COMMANDS]
    try:
        options = build_parser(chosen or COMMANDS).parse_args(words)
        return int(options.run(options))
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


def _report_storage_error(error: OSError) -> int:
    """Print in one line that a disk is full or a file cannot be written; else raise the error."""
    from kernelkb.safety.storage import find_storage_gap

    gap = find_storage_gap(error)
    if gap is None:
        raise error
    sys.stderr.write(f"kb: {gap}\n")
    return 2
