"""Turn sessions into calibrated predictions. Prints every number that changed.

kb learn --dry-run            what would change
kb learn                      write knowledge/learned.yaml
kb learn --forget SESSION     leave a session out from now on
kb learn --unforget SESSION   count it again
kb learn --undo               put the file back as it was before
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--dry-run", action="store_true", help="say what would change, write none")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--forget", metavar="SESSION", help="leave a session out from now on")
    how.add_argument("--unforget", metavar="SESSION", help="count a forgotten session again")
    how.add_argument("--undo", action="store_true", help="put the file back as it was; again: redo")
    json_argument(parser)


def run(options: Namespace) -> int:
    """Learn, and print what is new."""
    from kernelkb.actions.learn import learn
    from kernelkb.cli.output import print_json, print_lines

    if options.undo:
        _undone(options)
        return 0
    found = learn(forget=options.forget, unforget=options.unforget, write=not options.dry_run)
    if options.json:
        print_json(
            {
                "file": str(found.file),
                "written": found.written,
                "changes": [change._asdict() for change in found.changes],
                "candidates": [one._asdict() for one in found.candidates],
                "learned": found.learned.model_dump(mode="json"),
            }
        )
        return 0
    from kernelkb.render.learned import candidate_lines, change_lines

    print_lines(change_lines(found.changes))
    if not found.changes:
        print_lines(["no number changed"])
    if found.candidates:
        print_lines(["", "Candidates for patterns; write one by hand where it holds"])
        print_lines(candidate_lines(found.candidates))
    if found.written:
        print_lines(["", f"wrote {found.file}; kb learn --undo puts the old one back"])
    return 0


def _undone(options: Namespace) -> None:
    from kernelkb.actions.learn import undo
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.errors import BadValueError

    if options.dry_run:
        raise BadValueError("--undo writes, and --dry-run does not; leave one out")
    file = undo()
    if options.json:
        print_json({"file": str(file), "written": True})
    else:
        print_lines([f"{file} is as it was before; kb learn --undo once more puts it back"])
