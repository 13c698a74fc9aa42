"""Set two sessions side by side."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("before", metavar="A", help="a session's id")
    parser.add_argument("after", metavar="B", help="another's; last is the one written last")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print both, and the ratio of their speedups where there is an honest one."""
    from kernelkb.actions.session_outcomes import compare_sessions
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.outcomes import format_session_comparison_lines

    found = compare_sessions(options.before, options.after)
    if options.json:
        print_json(found)
    else:
        print_lines(format_session_comparison_lines(found))
    return 0
