"""The macros of ``kb build``: given ones, or those of the winner of a search."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.errors import BadValueError


def add_macro_arguments(parser: ArgumentParser) -> None:
    """Add what names the macros of a build."""
    parser.add_argument(
        "--define",
        action="append",
        default=[],
        metavar="NAME=V[,V...]",
        help="a macro; with several values or macros, every combination is built",
    )
    parser.add_argument(
        "--tuned",
        nargs="?",
        const="",
        metavar="WORKLOAD",
        help="the macros of kb tune's winner for this workload; default: the target's default",
    )


def choose_macros(options: Namespace) -> tuple[str | None, dict[str, list[str]]]:
    """Return the variant to build, and the values of its macros.

    Raises:
        BadValueError: A macro has no value, or no search is on record.
    """
    given = dict(map(_parse_macro, options.define or ()))
    if options.tuned is None:
        return options.variant, given
    if given:
        raise BadValueError("--tuned names all macros; leave --define out")
    from kernelkb.tune.winner import find_tuned_variant

    found = find_tuned_variant(
        options.kernel, options.variant, options.target, options.tuned or None, options.arch
    )
    return found.variant, found.macros


def _parse_macro(text: str) -> tuple[str, list[str]]:
    name, _, values = text.partition("=")
    if not name.isidentifier() or not values:
        raise BadValueError(f"--define {text} is not NAME=VALUE; write --define BLOCK=128,256")
    return name, values.split(",")
