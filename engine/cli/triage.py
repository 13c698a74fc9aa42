"""Take a kernel through the whole loop, and follow the recommendation where a variant applies it.

kb triage row_softmax
kb triage row_softmax --target cuda --variant warp
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_kernel_arguments

_EXIT_STATUS = {"done": 0, "stopped": 1, "could-not-run": 2}


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    add_kernel_arguments(parser)


def run(options: Namespace) -> int:
    """Print each step as it happens, then the comparison; or one JSON object."""
    from kernelkb.actions.steps import ignore_step
    from kernelkb.actions.triage import triage
    from kernelkb.cli.output import print_json
    from kernelkb.cli.screen import print_triage, watch_steps

    with watch_steps(quiet=options.json) as report:
        result = triage(
            options.kernel,
            options.variant,
            options.target,
            options.workload,
            ignore_step if options.json else report,
        )
    if options.json:
        print_json(result)
    else:
        print_triage(result)
    return _EXIT_STATUS[result.outcome]
