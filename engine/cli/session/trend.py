"""Print the outcomes of all sessions in time order, as a table or as charts."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--kernel", help="only sessions with this kernel")
    parser.add_argument("--plot", metavar="FILE.md", help="write it as Mermaid charts, too")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print the table; write the charts if --plot is given."""
    from kernelkb.actions.session_outcomes import compute_session_trend, plot_trend
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.outcomes import format_trend_lines

    trend = compute_session_trend(options.kernel)
    path = plot_trend(trend, options.plot) if options.plot else None
    if options.json:
        print_json(trend)
    else:
        print_lines([*format_trend_lines(trend), *([f"charts written to {path}"] if path else [])])
    return 0
