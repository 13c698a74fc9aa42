"""Say how a session went."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print its metrics."""
    from kernelkb.actions.session_outcomes import compute_session_metrics
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.outcomes import format_outcome_lines

    found = compute_session_metrics(options.session)
    if options.json:
        print_json(found)
    else:
        print_lines(format_outcome_lines(found))
    return 0
