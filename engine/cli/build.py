"""Compile a variant; print what the compiler said about it.

kb build row_softmax --variant naive --target cpu
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from engine.cli.options import kernel_arguments


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    kernel_arguments(parser, workload=False)


def run(options: Namespace) -> int:
    """Print the build; return 1 when it failed."""
    from engine.actions.kernels import build
    from engine.cli.output import print_json, print_lines
    from engine.render.measurements import build_line

    built = build(options.kernel, options.variant, options.target)
    if options.json:
        print_json(built)
    else:
        where = built.library or built.cure
        loops = (
            f"  line {loop.line}: {'' if loop.vectorized else 'scalar: '}{loop.reason}"
            for loop in built.loops
        )
        print_lines([build_line(built), *loops, f"  {where}"])
    return int(built.error is not None)
