"""Plan, show, log, compare and review what was done, in the project's sessions folder.

kb session show
kb session log --goal "faster softmax" --went-wrong "guessed twice" --went-right "profiled"
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

VERBS = {
    "show": "print a session's entries",
    "list": "print the ids of all sessions",
    "log": "append a retrospective",
    "submit": "write the form in which an expert reviews a session",
    "review": "check that form and print what accepting it would change",
    "accept": "make it part of the project's knowledge, or take it back",
}


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments: one module of this folder for each verb."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, summary in VERBS.items():
        import_module(f"{__name__}.{name}").arguments(verbs.add_parser(name, help=summary))


def run(options: Namespace) -> int:
    """Do the verb."""
    return int(import_module(f"{__name__}.{options.verb}").run(options))
