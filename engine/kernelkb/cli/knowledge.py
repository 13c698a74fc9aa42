"""The commands that check, list, search and draw the knowledge base."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import (
    add_json_argument,
    add_metric_arguments,
    parse_positive_int,
    read_metric_flags,
)


def add_check_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb check``."""
    parser.add_argument("root", nargs="?", type=Path, help="a knowledge folder; default: shipped")
    add_json_argument(parser)


def run_check(options: Namespace) -> int:
    """Validate every knowledge file, kernel.yaml and session.

    Prints each problem as path:line:column: field: message. Exits 1 if there are any.

    kb check
    kb check path/to/knowledge
    """
    from kernelkb.actions.knowledge.knowledge import check_knowledge
    from kernelkb.cli.output import print_json, print_lines, show_activity

    with show_activity("check"):
        problems, summary_counts = check_knowledge(options.root)
    if options.json:
        print_json([problem._asdict() for problem in problems])
    else:
        print_lines(map(str, problems))
        summary = f"{len(problems)} problems" if problems else f"{summary_counts}: no problems"
        sys.stderr.write(f"{summary}\n")
    return int(bool(problems))


def add_show_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb show``."""
    parser.add_argument(
        "what",
        help="metrics, bottlenecks, fixes, devices, architectures, thresholds, sources, trees, "
        "patterns, symptoms, workflow, stop-rules, preflight, learned, kernels, or an id",
    )
    add_json_argument(parser)


def run_show(options: Namespace) -> int:
    """List what the knowledge base holds, or print one entry.

    kb show metrics
    kb show uncoalesced-global-access
    kb show xor-swizzle    a fix, with its code where there is some
    """
    from kernelkb.actions.knowledge.knowledge import look_up_entries
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.documents.entry_yaml import format_entry_yaml

    entries = look_up_entries(options.what)
    if options.json:
        print_json(entries)
    elif isinstance(entries, list):
        width = max((len(row["id"]) for row in entries), default=0)
        print_lines(f"{row['id']:{width}}  {row['title']}" for row in entries)
    else:
        print_lines([format_entry_yaml(entries).rstrip()])
    return 0


SEARCH_KINDS = (
    "bottleneck", "fix", "metric", "threshold", "guard", "pattern", "symptom", "tree", "workflow",
    "device", "architecture", "command",
)  # fmt: skip


def add_search_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb search``."""
    parser.add_argument("words", nargs="+", metavar="WORD")
    parser.add_argument("--kind", choices=SEARCH_KINDS, help="only entries of this kind")
    parser.add_argument(
        "--limit", type=parse_positive_int, default=10, metavar="N", help="at most N entries"
    )
    add_json_argument(parser)


def run_search(options: Namespace) -> int:
    """Find entries and commands by a question, a message or a counter's name, misspelt or not.

    Exits 1 when nothing fits.

    kb search coalesing
    kb search how do I use tensor cores
    kb search undefined symbol after upgrading torch
    kb search sm__throughput.avg.pct_of_peak_sustained_elapsed
    kb search memory bandwidth of a 4090 --kind device
    """
    from kernelkb.actions.knowledge.search import find_entries
    from kernelkb.cli.output import print_json, print_lines

    hits = find_entries(" ".join(options.words), kind=options.kind, limit=options.limit)
    if options.json:
        print_json([hit._asdict() for hit in hits])
    else:
        width = max((len(hit.id) for hit in hits), default=0)
        print_lines(f"{hit.kind:12}  {hit.id:{width}}  {hit.title}" for hit in hits)
        if not hits:
            print_lines(["nothing fits; kb show KIND lists all entries of a kind"])
    return int(not hits)


def add_graph_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab graph``."""
    parser.add_argument(
        "name", nargs="?", default="performance-gate", help="id of a tree or of a bottleneck"
    )
    parser.add_argument("--format", choices=("mermaid", "dot", "json"), default="mermaid")
    add_metric_arguments(parser)
    add_json_argument(parser)


def run_graph(options: Namespace) -> int:
    """Draw a decision tree, or a bottleneck with its metrics and fixes, and the path taken.

    kb lab graph performance-gate --speedup 0.3
    kb lab graph memory-hierarchy --bandwidth 0.9 --metric over_fetch=3 --format dot | dot -Tsvg
    kb lab graph uncoalesced-global-access --format json
    """
    from kernelkb.actions.knowledge.graph import draw_picture
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.documents.pictures import format_dot_lines, format_mermaid_lines

    metrics, headlines = read_metric_flags(options)
    picture = draw_picture(options.name, metrics, headlines, target=options.target, gpu=options.gpu)
    if options.json or options.format == "json":
        print_json(picture)
    else:
        print_lines(
            format_mermaid_lines(picture)
            if options.format == "mermaid"
            else format_dot_lines(picture)
        )
    return 0
