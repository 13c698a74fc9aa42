"""``kb lab learn``: recompute the calibration of predictions from recorded sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def add_learn_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb lab learn``."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would change; write nothing"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--forget", metavar="SESSION", help="leave a session out from now on")
    how.add_argument("--unforget", metavar="SESSION", help="count a forgotten session again")
    how.add_argument("--undo", action="store_true", help="put the file back as it was; again: redo")
    add_json_argument(parser)


def run_learn(options: Namespace) -> int:
    """Recompute the calibration of predictions from sessions; print every number that changed.

    kb lab learn --dry-run            what would change
    kb lab learn                      write knowledge/learned.yaml
    kb lab learn --forget SESSION     leave a session out from now on
    kb lab learn --unforget SESSION   count it again
    kb lab learn --undo               put the file back as it was before
    """
    from kernelkb.actions.sessions.learn import update_learned_file
    from kernelkb.cli.output import print_json, print_lines

    if options.undo:
        _run_undo(options)
        return 0
    outcome = update_learned_file(
        forget=options.forget, unforget=options.unforget, write=not options.dry_run
    )
    if options.json:
        print_json(
            {
                "file": str(outcome.file),
                "written": outcome.was_written,
                "changes": [change._asdict() for change in outcome.changes],
                "candidates": [candidate._asdict() for candidate in outcome.candidates],
                "learned": outcome.learned.model_dump(mode="json"),
            }
        )
        return 0
    from kernelkb.render.text.learned import format_change_lines, format_pattern_candidate_lines

    print_lines(format_change_lines(outcome.changes))
    if not outcome.changes:
        print_lines(["no number changed"])
    if outcome.candidates:
        print_lines(["", "Candidates for patterns; write candidate by hand where it holds"])
        print_lines(format_pattern_candidate_lines(outcome.candidates))
    if outcome.was_written:
        print_lines(["", f"wrote {outcome.file}; kb lab learn --undo puts the old candidate back"])
    return 0


def _run_undo(options: Namespace) -> None:
    from kernelkb.actions.sessions.learn import undo_learn
    from kernelkb.cli.output import print_json, print_lines
    from kernelkb.errors import BadValueError

    if options.dry_run:
        raise BadValueError("--undo writes, and --dry-run does not; leave one out")
    file = undo_learn()
    if options.json:
        print_json({"file": str(file), "written": True})
    else:
        print_lines([f"{file} is as it was before; kb lab learn --undo once more puts it back"])
