"""The commands that print or write files generated from the knowledge."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument
from kernelkb.errors import BadValueError
from kernelkb.render.documents.guide import PAGES
from kernelkb.safety.kernel_name import read_kernel_name


def add_quickref_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab quickref``."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write knowledge/QUICKREF.md")
    how.add_argument(
        "--html", action="store_true", help="print it as a sheet of two A4 pages for the wall"
    )
    add_json_argument(parser)
    how.add_argument("--check", action="store_true", help="return 1 when the file is not fresh")


def run_quickref(options: Namespace) -> int:
    """Print, write or check the quick reference, generated from the knowledge.

    kb lab quickref            print it
    kb lab quickref --write    write knowledge/QUICKREF.md
    kb lab quickref --check    is that file fresh?
    kb lab quickref --html > sheet.html    a sheet to print: hardware, messages and commands too
    """
    from kernelkb.actions.knowledge.quickref import (
        generate_quickref,
        generate_quickref_sheet,
        is_quickref_fresh,
        write_quickref,
    )
    from kernelkb.cli.output import print_json

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
    add_json_argument(parser)


def run_guide(options: Namespace) -> int:
    """Print how an assistant works with KernelKB, generated from the knowledge.

    kb lab guide session-start --kernel row_softmax
    kb lab guide skill     the Agent Skill, which names commands of the shell
    kb lab guide --write   write skills/kernelkb, AGENTS.md and docs/commands.md of this repository
    kb lab guide --check   are those files fresh?
    """
    from kernelkb.cli.output import print_json

    if bool(options.page) == (options.write or options.check):
        raise BadValueError(f"name one of {', '.join(PAGES)}, or give --write or --check")
    if options.metrics and options.page != "diagnose":
        raise BadValueError("--metrics is for kb lab guide diagnose; leave it out")
    if options.kernel and options.page not in ("session-start", "diagnose"):
        raise BadValueError("--kernel is for session-start and diagnose; leave it out")
    if options.page:
        from kernelkb.actions.knowledge.guide import generate_guide_page

        text = generate_guide_page(options.page, kernel=options.kernel, metrics=options.metrics)
        if options.json:
            print_json({"page": options.page, "markdown": text})
        else:
            sys.stdout.write(text)
        return 0
    return _write_or_check_files(options)


def _write_or_check_files(options: Namespace) -> int:
    from kernelkb.actions.knowledge.guide import find_stale_files, write_guide_files
    from kernelkb.cli import build_parser
    from kernelkb.cli.output import print_json, print_lines

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
