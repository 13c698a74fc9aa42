"""List what the knowledge base holds, or print one entry.

kb show metrics
kb show uncoalesced-global-access
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "what",
        help="metrics, bottlenecks, fixes, devices, architectures, thresholds, sources, trees, "
        "patterns, symptoms, workflow, stop-rules, preflight, learned, kernels, or an id",
    )
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print it."""
    import yaml

    from kernelkb.actions.knowledge import look_up_entries
    from kernelkb.cli.output import print_json, print_lines

    found = look_up_entries(options.what)
    if options.json:
        print_json(found)
    elif isinstance(found, list):
        width = max((len(row["id"]) for row in found), default=0)
        print_lines(f"{row['id']:{width}}  {row['title']}" for row in found)
    else:
        text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=96)
        print_lines([text.rstrip()])
    return 0
