"""``kb variant``: adds a variant to a kernel."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument
from kernelkb.safety.kernel_name import read_kernel_name


def add_variant_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb variant``."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = verbs.add_parser("add", help="copy a variant's file and register it in kernel.yaml")
    add.add_argument(
        "kernel", type=read_kernel_name, help="the kernel's name; kb show kernels lists them"
    )
    add.add_argument(
        "name", help="of the new variant: the fix that it will apply, or other words with hyphens"
    )
    add.add_argument(
        "--from", dest="source", metavar="ID", help="the variant to copy; default: the plain one"
    )
    add.add_argument(
        "--target",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="needed where the copied variant exists for both",
    )
    add_json_argument(add)


def run_variant(options: Namespace) -> int:
    """Copy a variant under a new name, so that one change to it is timed against the original.

    A name that is a fix's id says in kernel.yaml that the variant applies that fix.

    kb variant add row_softmax parallelize-rows --from naive --target cpu
    """
    from kernelkb.actions.project.variants import add_variant
    from kernelkb.cli.output import print_record

    added = add_variant(options.kernel, options.name, options.source, options.target)
    follow = added.next_step.as_shell_words()
    lines = [
        *(f"wrote {file}" for file in added.written),
        f"change one thing in {added.path}, then",
        f"next: {follow}",
    ]
    record = {**added.model_dump(mode="json"), "next": [follow]}
    return print_record(record, lines, as_json=options.json)
