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
    "review": "write a session's review file, or check it and print what it changes",
}
_REMOVED_VERBS = {
    "submit": "kb session review SESSION writes knowledge/reviews/SESSION.yaml to fill in",
    "accept": "commit knowledge/reviews/SESSION.yaml to accept a review, delete it to undo one",
}
"""Verbs of earlier releases and what replaces them; to be removed after one release."""


def add_session_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments: one module of this folder for each verb."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, summary in VERBS.items():
        import_module(f"{__name__}.{name}").arguments(verbs.add_parser(name, help=summary))
    for name in _REMOVED_VERBS:  # without help, so not listed; no prefix, so any option is read
        removed = verbs.add_parser(name, prefix_chars="\0", add_help=False)
        removed.add_argument("ignored", nargs="*")


def run_session(options: Namespace) -> int:
    """Plan, show, log, compare and review what was done, in the project's sessions folder.

    kb session new 2026-11-21-gemm "gemm at half of cuBLAS" --plan optimize --kernel gemm
    kb session log --goal "faster softmax" --went-wrong "guessed twice" --went-right "profiled"
    kb session close --went-right "profiled before changing anything" --cost-usd 12
    """
    if options.verb in _REMOVED_VERBS:
        from kernelkb.errors import KbError

        raise KbError(f"kb session {options.verb} was removed; {_REMOVED_VERBS[options.verb]}")
    return int(import_module(f"{__name__}.{options.verb}").run(options))
