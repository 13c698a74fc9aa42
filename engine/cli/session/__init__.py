"""``kb session``: one module of this folder for each verb."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

VERBS = {
    "new": "write down a plan and open a session: verbs log into it by themselves",
    "log": "append a retrospective",
    "close": "end a session",
    "list": "print all sessions",
    "show": "print a session's plan and entries",
    "metrics": "say how a session went: time, changes, speedup, cost",
    "compare": "set two sessions side by side",
    "trend": "print the outcomes of all sessions in time order, as a table or as charts",
    "submit": "write the form in which an expert reviews a session",
    "review": "check that form and print what accepting it would change",
    "accept": "make it part of the project's knowledge, or take it back",
}


def add_session_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments: one module of this folder for each verb."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, summary in VERBS.items():
        import_module(f"{__name__}.{name}").arguments(verbs.add_parser(name, help=summary))


def run_session(options: Namespace) -> int:
    """Plan, show, log, compare and review what was done, in the project's sessions folder.

    kb session new 2026-11-21-gemm "gemm at half of cuBLAS" --plan optimize --kernel gemm
    kb session log --goal "faster softmax" --went-wrong "guessed twice" --went-right "profiled"
    kb session close --went-right "profiled before changing anything" --cost-usd 12
    """
    return int(import_module(f"{__name__}.{options.verb}").run(options))
