"""Collect the metrics that explain a variant: the compiler's report on a CPU, ncu on a GPU.

kb profile row_softmax --target cpu
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_kernel_arguments


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    add_kernel_arguments(parser)


def run(options: Namespace) -> int:
    """Print the metrics and the evidence; return 1 when there was nothing to explain."""
    from kernelkb.actions.kernels import profile_variant
    from kernelkb.cli.output import interruptible_measurement, print_json, print_lines, print_result
    from kernelkb.model.measurement import Bench
    from kernelkb.render.measurements import describe_bench, describe_profile

    with interruptible_measurement():
        seen = profile_variant(options.kernel, options.variant, options.target, options.workload)
    if options.json:
        print_json(seen)
    elif isinstance(seen, Bench):
        print_result(describe_bench(seen), seen.cure)
    else:
        metrics = [f"  {name} = {value:.6g}" for name, value in sorted(seen.metrics.items())]
        evidence = [f"  {line}" for line in seen.evidence]
        print_lines([describe_profile(seen), *metrics, *evidence])
        print_result(None, seen.cure)
    return int(isinstance(seen, Bench))
