"""Draw a tree, or a bottleneck between its metrics and fixes, with the path that metrics take.

kb graph performance-gate --speedup 0.3
kb graph memory-hierarchy --bandwidth 0.9 --metric over_fetch=3 --format dot | dot -Tsvg
kb graph uncoalesced-global-access --format json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument, add_metric_arguments, read_metric_flags


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "name", nargs="?", default="performance-gate", help="id of a tree or of a bottleneck"
    )
    parser.add_argument("--format", choices=("mermaid", "dot", "json"), default="mermaid")
    add_metric_arguments(parser)
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print the picture."""
    from kernelkb.actions.graph import draw_picture
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.pictures import format_dot_lines, format_mermaid_lines

    metrics, headlines = read_metric_flags(options)
    drawn = draw_picture(options.name, metrics, headlines, target=options.target, gpu=options.gpu)
    if options.json or options.format == "json":
        print_json(drawn)
    else:
        print_lines(
            format_mermaid_lines(drawn) if options.format == "mermaid" else format_dot_lines(drawn)
        )
    return 0
