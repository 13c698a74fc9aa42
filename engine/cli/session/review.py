"""Write the review file of a session, or check it and print what it changes in the knowledge."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Write or check the file; return 1 if it has problems."""
    from kernelkb.actions.reviews import (
        get_threshold_values,
        preview_review,
        write_review_template,
    )
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.render.reviews import format_preview_lines

    session, path, is_new = write_review_template(options.session)
    if is_new:
        if options.json:
            print_json({"file": str(path), "written": True})
        else:
            next_step = f"fill it in, then run kb session review {session} again to check it"
            print_lines([f"wrote {path}", next_step])
        return 0
    preview = preview_review(session)
    if options.json:
        print_json(preview)
    else:
        print_lines(format_preview_lines(preview, get_threshold_values()))
    return int(bool(preview.problems))
