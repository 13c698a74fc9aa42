"""Compile a variant; print what the compiler said about it.

kb build row_softmax --variant naive --target cpu
kb build row_softmax --variant warp --arch 9.0
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_kernel_arguments
from kernelkb.errors import BadValueError
from kernelkb.model.measurement import Build
from kernelkb.render.measurements import describe_build


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    add_kernel_arguments(parser, workload=False)
    parser.add_argument(
        "--arch",
        metavar="CC",
        help="compile for this architecture, without a GPU: 8.9 or sm_89; kb show architectures",
    )
    parser.add_argument(
        "--define",
        action="append",
        default=[],
        metavar="NAME=V[,V...]",
        help="a macro; several values, or several macros, make every combination side by side",
    )


def run(options: Namespace) -> int:
    """Print the build; return 1 when it failed."""
    from kernelkb.actions.building import build_configurations, build_variant
    from kernelkb.cli.output import interruptible_measurement, print_json, print_lines

    which = (options.variant, options.target, options.arch)
    macros = dict(map(_parse_macro, options.define or ()))
    with interruptible_measurement():
        if macros:
            builds = build_configurations(options.kernel, macros, *which)
        else:
            builds = [build_variant(options.kernel, *which)]
    if options.json:
        print_json(builds if options.define else builds[0])
    else:
        print_lines(line for built in builds for line in _format_build(built))
    return int(any(built.error is not None for built in builds))


def _parse_macro(text: str) -> tuple[str, list[str]]:
    name, _, values = text.partition("=")
    if not name.isidentifier() or not values:
        raise BadValueError(f"--define {text} is not NAME=VALUE; write --define BLOCK=128,256")
    return name, values.split(",")


def _format_build(built: Build) -> list[str]:
    loops = [
        f"  line {loop.line}: {'' if loop.vectorized else 'scalar: '}{loop.reason}"
        for loop in built.loops
    ]
    which = f"{' '.join(built.defines)}: " if built.defines else ""
    lost = [f"  not recorded: {built.unrecorded}"] if built.unrecorded else []
    where = f"  {built.library or built.cure or 'as it is'}"
    return [which + describe_build(built), *loops, where, *lost]
