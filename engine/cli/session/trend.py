"""Say how sessions went, one after the other."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--kernel", help="only sessions with this kernel")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw it, too")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print the table, and draw the plot where one is wanted."""
    from kernelkb.actions.session_outcomes import compute_session_trend, plot_trend
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.outcomes import format_trend_lines

    found = compute_session_trend(options.kernel)
    path = plot_trend(found, options.plot) if options.plot else None
    if options.json:
        print_json(found)
    else:
        print_lines([*format_trend_lines(found), *([f"drawn into {path}"] if path else [])])
    return 0
