"""Write the form in which an expert reviews a session."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Write it."""
    from kernelkb.actions.reviews import write_review_form
    from kernelkb.cli.output import print_json, print_lines

    form, written = write_review_form(options.session)
    if options.json:
        print_json({"form": str(form), "written": written})
    else:
        said = "wrote" if written else "there already, and as it was written:"
        print_lines([f"{said} {form}", f"fill it in, then kb session review {form.stem}"])
    return 0
