"""Commands over the attempts at a kernel: their tree, the difference of two, going back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument, parse_positive_int
from kernelkb.safety.paths import read_kernel_name


def add_log_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb log``."""
    parser.add_argument("kernel", type=read_kernel_name, help="the kernel's name")
    parser.add_argument(
        "--limit", type=parse_positive_int, default=50, metavar="N", help="newest; default 50"
    )
    add_json_argument(parser)


def run_log(options: Namespace) -> int:
    """Print every state of a kernel that was built, as a tree, and what each change gave.

    The best path is marked (*); a change without gain has its reason.

    kb log row_softmax
    """
    from kernelkb.actions.history.attempts import load_attempt_log
    from kernelkb.cli.output import print_record
    from kernelkb.render.text.attempts import build_log_object, format_attempt_log

    log = load_attempt_log(options.kernel, options.limit)
    return print_record(
        build_log_object(log) if options.json else log,
        format_attempt_log(log),
        as_json=options.json,
    )


def add_diff_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab diff``."""
    parser.add_argument("a", metavar="BEFORE", help="id of an attempt; kb log lists them")
    parser.add_argument("b", metavar="AFTER", help="id of another")
    add_json_argument(parser)


def run_diff(options: Namespace) -> int:
    """Print what differs between two attempts: time, machine code, metrics, source.

    kb lab diff 3f2a91c0 77ab02de
    """
    from kernelkb.actions.comparison.compare_attempts import compare_attempts
    from kernelkb.cli.output import print_record
    from kernelkb.render.text.attempts import build_difference_object, format_attempt_difference

    found = compare_attempts(options.a, options.b)
    return print_record(
        build_difference_object(found) if options.json else found,
        format_attempt_difference(found),
        as_json=options.json,
    )


def add_restore_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb restore``."""
    parser.add_argument("id", nargs="?", help="of an attempt; kb log lists them")
    parser.add_argument(
        "--best",
        metavar="KERNEL",
        type=read_kernel_name,
        help="the fastest attempt at this kernel",
    )
    add_json_argument(parser)


def run_restore(options: Namespace) -> int:
    """Write a state of a variant back, byte for byte, after keeping what is there now.

    kb restore 3f2a91c0
    kb restore --best row_softmax
    """
    from kernelkb.actions.history.attempts import restore_attempt
    from kernelkb.cli.output import print_record
    from kernelkb.errors import BadValueError
    from kernelkb.render.text.attempts import build_restored_object, format_restored

    if (options.id is None) == (options.best is None):
        raise BadValueError("name one: kb restore ID, or kb restore --best KERNEL")
    restored = restore_attempt(options.id, options.best)
    return print_record(
        build_restored_object(restored) if options.json else restored,
        format_restored(restored),
        as_json=options.json,
    )
