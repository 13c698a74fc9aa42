"""How to work with KernelKB, for an assistant, generated from the knowledge.

kb guide session-start --kernel row_softmax
kb guide skill         the Agent Skill, which names commands of the shell
kb guide --write       write skills/kernelkb, AGENTS.md and docs/commands.md of this repository
kb guide --check       are those files fresh?
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument
from kernelkb.errors import BadValueError
from kernelkb.render.guide import PAGES


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("page", nargs="?", choices=PAGES, help="what to print")
    parser.add_argument("--kernel", metavar="NAME", help="the kernel that it is about")
    parser.add_argument("--metrics", metavar="TEXT", help="what was measured, for diagnose")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write the generated files")
    how.add_argument("--check", action="store_true", help="return 1 when one of them is stale")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print a page, or write or check the files."""
    from kernelkb.cli.output import print_json

    if bool(options.page) == (options.write or options.check):
        raise BadValueError(f"name one of {', '.join(PAGES)}, or give --write or --check")
    if options.metrics and options.page != "diagnose":
        raise BadValueError("--metrics is for kb guide diagnose; leave it out")
    if options.kernel and options.page not in ("session-start", "diagnose"):
        raise BadValueError("--kernel is for session-start and diagnose; leave it out")
    if options.page:
        from kernelkb.actions.guide import generate_guide_page

        text = generate_guide_page(options.page, kernel=options.kernel, metrics=options.metrics)
        if options.json:
            print_json({"page": options.page, "markdown": text})
        else:
            sys.stdout.write(text)
        return 0
    return _write_or_check_files(options)


def _write_or_check_files(options: Namespace) -> int:
    from kernelkb.actions.guide import find_stale_files, write_guide_files
    from kernelkb.cli import build_parser
    from kernelkb.cli.output import print_json, print_lines

    generate = write_guide_files if options.write else find_stale_files
    files = [str(file) for file in generate(build_parser())]
    if options.json:
        print_json({"written" if options.write else "stale": files})
    elif options.write:
        print_lines(files)
    if options.check and files:
        sys.stderr.write("".join(f"kb: {file} is stale; run kb guide --write\n" for file in files))
    return int(options.check and bool(files))
