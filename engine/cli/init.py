"""Set up KernelKB in your own project: a kernel.yaml for your kernel, sessions, the MCP entry.

kb init src/add.cu
kb init other/add.cu --name other_add
kb init 23_Softmax.py --candidate mine.py
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", nargs="?", help="the kernel's source; looked for by default")
    parser.add_argument("--candidate", metavar="FILE", help="for a KernelBench task: its ModelNew")
    parser.add_argument(
        "--target",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto goes by the source, for a KernelBench task by the machine",
    )
    parser.add_argument("--name", help="the kernel's; default: the file's")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print what was written; return 1 while something is left to fill in."""
    from kernelkb.actions.init_project import init_project
    from kernelkb.cli.output import print_json, print_lines

    begun = init_project(options.file, options.candidate, options.target, options.name)
    if options.json:
        print_json(begun)
    else:
        print_lines(
            [
                *(f"wrote {name}" for name in begun.written),
                *(f"kept  {name}" for name in begun.kept),
                *(f"warning: {text}" for text in begun.warnings),
                *(f"fill in {mark}" for mark in begun.to_fill),
                begun.next,
            ]
        )
    return int(bool(begun.to_fill))
