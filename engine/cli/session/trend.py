"""Say how sessions went, one after the other."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--kernel", help="only sessions with this kernel")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw it, too")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Print the table, and draw the plot where one is wanted."""
    from kernelkb.actions.session_outcomes import plot_trend, session_trend
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.outcomes import trend_lines

    found = session_trend(options.kernel)
    path = plot_trend(found, options.plot) if options.plot else None
    if options.json:
        print_json(found)
    else:
        print_lines([*trend_lines(found), *([f"drawn into {path}"] if path else [])])
    return 0
