"""The table of all commands of ``kb``, for its help, its reference and the search.

Imports nothing: ``kb --help`` is printed from it alone, in the time that the interpreter takes.
"""

GROUPS = {
    "decide": "what limits a kernel, and the one change that comes next",
    "measure": "build, check and time it",
    "tune": "find the fastest configuration",
    "history": "what was tried, and what came of it",
    "knowledge": "causes, fixes, limits and sources",
    "set up": "your project and this machine",
}
"""Groups of the commands that ``kb --help`` lists, in its order, and what each is about."""

LAB_GROUPS = {
    "records": "the database of measurements",
    "many devices": "more kernels or hosts than one",
    "KernelKB itself": "its knowledge, its guides, how well it predicts",
}
"""Groups of the commands that are seldom needed: ``kb lab --help`` lists them."""

COMMANDS = {
    "recommend": (
        "recommend",
        "decide",
        "the next fix, or the next measurement, from a few numbers",
    ),
    "report": (
        "recommend",
        "decide",
        "a report of Nsight Compute as one HTML page: causes, source and machine code",
    ),
    "diagnose": (
        "calculators",
        "decide",
        "name known failures in the log of a build, a load or a run",
    ),
    "occupancy": (
        "calculators",
        "decide",
        "how many blocks fit on an SM, what limits them, and the next step",
    ),
    "roofline": (
        "calculators",
        "decide",
        "the shortest possible time of some work on a GPU, and which roof binds",
    ),
    "triage": (
        "kernels",
        "measure",
        "take a kernel through the whole loop: build, check, bench, profile, recommend",
    ),
    "build": ("kernels", "measure", "compile a variant of a kernel"),
    "bench": ("kernels", "measure", "check and time a variant against the reference"),
    "profile": (
        "kernels",
        "measure",
        "collect the metrics that explain a variant, or any program: kb profile -- COMMAND",
    ),
    "explain": (
        "kernels",
        "measure",
        "why a program hangs or crashes: lines, threads, cause: kb explain -- COMMAND",
    ),
    "compare": (
        "history",
        "measure",
        "ratio of two measurements, with its interval; or what changed between two reports",
    ),
    "variant": ("project", "measure", "add a variant to a kernel: a copy to change"),
    "tune": (
        "tune",
        "tune",
        "search the configurations of a tunable variant for the fastest",
    ),
    "session": ("session", "history", "plan, log, show and review work sessions"),
    "log": (
        "history",
        "history",
        "every state of a kernel that was built, as a tree, and what each change gave",
    ),
    "restore": (
        "history",
        "records",
        "write a state of a variant back, after keeping what is there now",
    ),
    "web": (
        "project",
        "history",
        "a page of it all: decisions, a session's checklist, what runs now, the history",
    ),
    "search": ("knowledge", "knowledge", "find knowledge entries by words, misspelt ones too"),
    "show": ("knowledge", "knowledge", "list and print knowledge entries"),
    "check": ("knowledge", "knowledge", "validate every knowledge file, kernel and session"),
    "init": ("project", "set up", "set up KernelKB in your own project, for your own kernel"),
    "env": (
        "project",
        "set up",
        "what this machine can build and measure, with a cure for every gap",
    ),
    "history": ("history", "records", "recorded measurements of a kernel, newest first"),
    "best": (
        "history",
        "records",
        "the fastest valid measurement of each kernel, workload and device",
    ),
    "diff": (
        "history",
        "records",
        "what differs between two attempts: time, machine code, metrics, source",
    ),
    "regress": (
        "history",
        "records",
        "fail on a confirmed regression, promote a confirmed improvement",
    ),
    "export": ("history", "records", "write all measurements and attempts to a file"),
    "import": ("history", "records", "add the measurements of a file of kb lab export"),
    "sweep": (
        "workers",
        "many devices",
        "check and time many kernels, or a level of KernelBench, on all GPUs",
    ),
    "worker": (
        "workers",
        "many devices",
        "serve the GPUs of this host to kb tune --workers on another one",
    ),
    "learn": (
        "knowledge",
        "KernelKB itself",
        "calibrate predictions from sessions; leave one out again",
    ),
    "graph": (
        "knowledge",
        "KernelKB itself",
        "draw a decision tree or an entry's neighbours, with the path taken",
    ),
    "quickref": (
        "knowledge",
        "KernelKB itself",
        "the quick reference, generated from the knowledge",
    ),
    "guide": (
        "knowledge",
        "KernelKB itself",
        "how an assistant works with KernelKB; writes the Agent Skill",
    ),
}
"""Each command: its module in ``kernelkb.cli``, its group, and what it does.

A module defines ``add_NAME_arguments(parser)`` and ``run_NAME(options)`` for each of its commands;
the docstring of ``run_NAME`` is the description that ``--help`` prints.
"""


def is_lab_command(name: str) -> bool:
    """Return whether a command is one of the seldom ones, which stand under ``kb lab``."""
    return name in COMMANDS and COMMANDS[name][1] in LAB_GROUPS


def spell_command(name: str) -> str:
    """Return how a command is written: ``kb bench``, or ``kb lab best`` for a seldom one.

    Args:
        name: The command, with a verb of its own or without: ``best``, ``session show``.
    """
    return f"kb lab {name}" if is_lab_command(name.partition(" ")[0]) else f"kb {name}"
