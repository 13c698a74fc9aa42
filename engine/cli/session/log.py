"""Append a retrospective."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--goal", required=True)
    parser.add_argument("--kernel")
    parser.add_argument("--variant")
    parser.add_argument("--target", choices=("cpu", "cuda"))
    parser.add_argument(
        "--session", help="id; default: the open one, else today's with that kernel"
    )
    add_lesson_arguments(parser)
    add_json_argument(parser)


def add_lesson_arguments(parser: ArgumentParser) -> None:
    """Add what was learnt, and what it cost."""
    parser.add_argument("--went-wrong", action="append", default=[], metavar="TEXT")
    parser.add_argument("--went-right", action="append", default=[], metavar="TEXT")
    parser.add_argument("--pattern-candidate", action="append", default=[], metavar="TEXT")
    parser.add_argument("--cost-usd", type=float, metavar="USD")


def read_lesson_options(options: Namespace) -> dict[str, Any]:
    """Return what ``lesson_arguments`` read, as fields of an entry."""
    return {
        "went_wrong": options.went_wrong,
        "went_right": options.went_right,
        "pattern_candidates": options.pattern_candidate,
        "cost_usd": options.cost_usd,
    }


def run(options: Namespace) -> int:
    """Append it."""
    from kernelkb.actions.sessions import log_retrospective
    from kernelkb.cli.output import print_json, print_lines

    entry, path = log_retrospective(
        {
            "goal": options.goal,
            "kernel": options.kernel,
            "variant": options.variant,
            "target": options.target,
            "session": options.session,
            **read_lesson_options(options),
        }
    )
    if options.json:
        print_json(entry)
    else:
        print_lines([f"appended to {path}"])
    return 0
