"""Find entries of the knowledge by words: ids, symptoms, raw metric names, misspelt or not.

kb search coalesing
kb search undefined symbol after upgrading torch
kb search smsp__average_warp_latency --kind metric
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument

SEARCH_KINDS = (
    "bottleneck", "fix", "metric", "threshold", "guard", "pattern", "symptom", "tree", "workflow",
)  # fmt: skip


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("words", nargs="+", metavar="WORD")
    parser.add_argument("--kind", choices=SEARCH_KINDS, help="only entries of this kind")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="at most N entries")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print what was found, the best first; return 1 when nothing was."""
    from kernelkb.actions.search import find_entries
    from kernelkb.cli.output import print_json, print_lines

    hits = find_entries(" ".join(options.words), kind=options.kind, limit=options.limit)
    if options.json:
        print_json([hit._asdict() for hit in hits])
    else:
        width = max((len(hit.id) for hit in hits), default=0)
        print_lines(f"{hit.kind:10}  {hit.id:{width}}  {hit.title}" for hit in hits)
        if not hits:
            print_lines(["nothing fits; kb show KIND lists what there is"])
    return int(not hits)
