"""The commands that check, list, search and draw the knowledge, and what is generated from it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.cli.options import (
    add_metric_arguments,
    parse_positive_int,
    read_metric_flags,
)
from kernelkb.cli.output import print_json, print_lines, show_activity
from kernelkb.errors import BadValueError
from kernelkb.render.documents.guide import PAGES
from kernelkb.safety.paths import read_kernel_name


def add_check_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb check``."""
    parser.add_argument("root", nargs="?", type=Path, help="a knowledge folder; default: shipped")


def run_check(options: Namespace) -> int:
    """Validate every knowledge file, kernel.yaml and session.

    Prints each problem as path:line:column: field: message. Exits 1 if there are any.

    kb check
    kb check path/to/knowledge
    """
    from kernelkb.actions.knowledge.knowledge import check_knowledge

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


def run_show(options: Namespace) -> int:
    """List what the knowledge base holds, or print one entry.

    kb show metrics
    kb show uncoalesced-global-access
    kb show xor-swizzle    a fix, with its code where there is some
    """
    from kernelkb.actions.knowledge.knowledge import look_up_entries
    from kernelkb.render.documents.entries import format_entry_yaml

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


def run_graph(options: Namespace) -> int:
    """Draw a decision tree, or a bottleneck with its metrics and fixes, and the path taken.

    kb lab graph performance-gate --speedup 0.3
    kb lab graph memory-hierarchy --bandwidth 0.9 --metric over_fetch=3 --format dot | dot -Tsvg
    kb lab graph uncoalesced-global-access --format json
    """
    from kernelkb.actions.knowledge.knowledge import draw_picture
    from kernelkb.render.documents.entries import format_dot_lines, format_mermaid_lines

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


def add_quickref_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab quickref``."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write knowledge/QUICKREF.md")
    how.add_argument(
        "--html", action="store_true", help="print it as a sheet of two A4 pages for the wall"
    )
    how.add_argument("--check", action="store_true", help="return 1 when the file is not fresh")


def run_quickref(options: Namespace) -> int:
    """Print, write or check the quick reference, generated from the knowledge.

    kb lab quickref            print it
    kb lab quickref --write    write knowledge/QUICKREF.md
    kb lab quickref --check    is that file fresh?
    kb lab quickref --html > sheet.html    a sheet to print: hardware, messages and commands too
    """
    from kernelkb.actions.knowledge.documents import (
        generate_quickref,
        generate_quickref_sheet,
        is_quickref_fresh,
        write_quickref,
    )

    if options.html and not options.json:
        sys.stdout.write(generate_quickref_sheet())
        return 0
    file = write_quickref() if options.write else None
    stale = options.check and not is_quickref_fresh()
    if stale:
        sys.stderr.write("kb: knowledge/QUICKREF.md is stale; run kb lab quickref --write\n")
    if options.json:
        print_json(
            {
                "file": str(file) if file else None,
                "fresh": is_quickref_fresh(),
                "markdown": generate_quickref(),
                **({"html": generate_quickref_sheet()} if options.html else {}),
            }
        )
    elif not options.check:
        sys.stdout.write(f"{file}\n" if file else generate_quickref())
    return int(stale)


def add_guide_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab guide``."""
    parser.add_argument("page", nargs="?", choices=PAGES, help="what to print")
    parser.add_argument(
        "--kernel", metavar="NAME", type=read_kernel_name, help="the kernel that it is about"
    )
    parser.add_argument("--metrics", metavar="TEXT", help="what was measured, for diagnose")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write the generated files")
    how.add_argument("--check", action="store_true", help="return 1 when one of them is stale")


def run_guide(options: Namespace) -> int:
    """Print how an assistant works with KernelKB, generated from the knowledge.

    kb lab guide session-start --kernel row_softmax
    kb lab guide skill     the Agent Skill, which names commands of the shell
    kb lab guide --write   write skills/kernelkb, AGENTS.md and docs/commands.md of this repository
    kb lab guide --check   are those files fresh?
    """
    if bool(options.page) == (options.write or options.check):
        raise BadValueError(f"name one of {', '.join(PAGES)}, or give --write or --check")
    if options.metrics and options.page != "diagnose":
        raise BadValueError("--metrics is for kb lab guide diagnose; leave it out")
    if options.kernel and options.page not in ("session-start", "diagnose"):
        raise BadValueError("--kernel is for session-start and diagnose; leave it out")
    if options.page:
        from kernelkb.actions.knowledge.documents import generate_guide_page

        text = generate_guide_page(options.page, kernel=options.kernel, metrics=options.metrics)
        if options.json:
            print_json({"page": options.page, "markdown": text})
        else:
            sys.stdout.write(text)
        return 0
    return _write_or_check_files(options)


def _write_or_check_files(options: Namespace) -> int:
    from kernelkb.actions.knowledge.documents import find_stale_files, write_guide_files
    from kernelkb.cli import build_parser

    generate = write_guide_files if options.write else find_stale_files
    files = [str(file) for file in generate(build_parser())]
    if options.json:
        print_json({"written" if options.write else "stale": files})
    elif options.write:
        print_lines(files)
    if options.check and files:
        sys.stderr.write(
            "".join(f"kb: {file} is stale; run kb lab guide --write\n" for file in files)
        )
    return int(options.check and bool(files))


def add_learn_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab learn``."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would change; write nothing"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--forget", metavar="SESSION", help="leave a session out from now on")
    how.add_argument("--unforget", metavar="SESSION", help="count a forgotten session again")
    how.add_argument("--undo", action="store_true", help="put the file back as it was; again: redo")


def run_learn(options: Namespace) -> int:
    """Recompute the calibration of predictions from sessions; print every number that changed.

    kb lab learn --dry-run            what would change
    kb lab learn                      write knowledge/learned.yaml
    kb lab learn --forget SESSION     leave a session out from now on
    kb lab learn --unforget SESSION   count it again
    kb lab learn --undo               put the file back as it was before
    """
    from kernelkb.actions.sessions.learn import update_learned_file

    if options.undo:
        _run_undo(options)
        return 0
    outcome = update_learned_file(
        forget=options.forget, unforget=options.unforget, write=not options.dry_run
    )
    if options.json:
        print_json(
            {
                "file": str(outcome.file),
                "written": outcome.was_written,
                "changes": [change._asdict() for change in outcome.changes],
                "candidates": [candidate._asdict() for candidate in outcome.candidates],
                "learned": outcome.learned.model_dump(mode="json"),
            }
        )
        return 0
    from kernelkb.render.text.sessions import format_change_lines, format_pattern_candidate_lines

    print_lines(format_change_lines(outcome.changes))
    if not outcome.changes:
        print_lines(["no number changed"])
    if outcome.candidates:
        print_lines(["", "Candidates for patterns; write candidate by hand where it holds"])
        print_lines(format_pattern_candidate_lines(outcome.candidates))
    if outcome.was_written:
        print_lines(["", f"wrote {outcome.file}; kb lab learn --undo puts the old candidate back"])
    return 0


def _run_undo(options: Namespace) -> None:
    from kernelkb.actions.sessions.learn import undo_learn

    if options.dry_run:
        raise BadValueError("--undo writes, and --dry-run does not; leave one out")
    file = undo_learn()
    if options.json:
        print_json({"file": str(file), "written": True})
    else:
        print_lines([f"{file} is as it was before; kb lab learn --undo once more puts it back"])
