"""Show what was done, or log what was learnt, in the project's sessions folder.

kb session show
kb session log --goal "faster softmax" --went-wrong "guessed twice" --went-right "profiled"
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from engine.cli.options import json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    show = verbs.add_parser("show", help="print a session's entries")
    show.add_argument("session", nargs="?", default="last", help="a session's id; default: last")
    json_argument(show)
    json_argument(verbs.add_parser("list", help="print the ids of all sessions"))
    log = verbs.add_parser("log", help="append a retrospective")
    log.add_argument("--goal", required=True)
    log.add_argument("--kernel")
    log.add_argument("--session", help="id; default: today's with that kernel")
    log.add_argument("--went-wrong", action="append", default=[], metavar="TEXT")
    log.add_argument("--went-right", action="append", default=[], metavar="TEXT")
    log.add_argument("--pattern-candidate", action="append", default=[], metavar="TEXT")
    log.add_argument("--cost-usd", type=float)
    json_argument(log)


def run(options: Namespace) -> int:
    """Do the verb."""
    return {"show": _show, "list": _list, "log": _log}[options.verb](options)


def _show(options: Namespace) -> int:
    from engine.actions.sessions import show_session
    from engine.cli.output import print_json, print_lines
    from engine.render.sessions import entry_lines

    entries = show_session(options.session)
    if options.json:
        print_json(entries)
    else:
        for entry in entries:
            print_lines(entry_lines(entry))
    return 0


def _list(options: Namespace) -> int:
    from engine.actions.sessions import list_sessions
    from engine.cli.output import print_json, print_lines

    names = list_sessions()
    if options.json:
        print_json(names)
    else:
        print_lines(names)
    return 0


def _log(options: Namespace) -> int:
    from engine.actions.sessions import log_session
    from engine.cli.output import print_json, print_lines

    entry, path = log_session(
        {
            "goal": options.goal,
            "kernel": options.kernel,
            "session": options.session,
            "went_wrong": options.went_wrong,
            "went_right": options.went_right,
            "pattern_candidates": options.pattern_candidate,
            "cost_usd": options.cost_usd,
        }
    )
    if options.json:
        print_json(entry)
    else:
        print_lines([f"appended to {path}"])
    return 0
