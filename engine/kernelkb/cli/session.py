"""``kb session``: plans, records and reviews optimisation sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

from kernelkb.cli.options import parse_positive_int, parse_seconds
from kernelkb.cli.output import print_record
from kernelkb.safety.paths import read_kernel_name


class Verb(NamedTuple):
    """One verb of ``kb session``."""

    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def add_session_arguments(parser: ArgumentParser) -> None:
    """Add a parser for each verb."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, verb in VERBS.items():
        of_verb = verbs.add_parser(name, help=verb.summary)
        verb.add_arguments(of_verb)


def run_session(options: Namespace) -> int:
    """Plan, show, log and review what was done, in the project's sessions folder.

    kb session new 2026-11-21-gemm "gemm at half of cuBLAS" --plan optimize --kernel gemm
    kb session log --goal "faster softmax" --went-wrong "guessed twice" --went-right "profiled"
    kb session close --went-right "profiled before changing anything" --cost-usd 12
    """
    return VERBS[options.verb].run(options)


def _add_new_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="such as 2026-11-21-gemm; names the file")
    parser.add_argument("goal", help="what it is for, best as a number with a unit")
    parser.add_argument(
        "--plan",
        choices=("baseline", "optimize"),
        help="with gates and time budgets: up to a number to trust, or all the way",
    )
    parser.add_argument(
        "--kernel", type=read_kernel_name, help="only work on this one is logged here; default: any"
    )
    parser.add_argument("--attempts", type=parse_positive_int, metavar="N", help="budget")
    parser.add_argument("--minutes", type=parse_seconds, metavar="MIN", help="budget")
    parser.add_argument(
        "--device-seconds", type=parse_seconds, metavar="S", help="budget of checks and benches"
    )


def _run_new(options: Namespace) -> int:
    from kernelkb.actions.sessions.sessions import start_session

    opened = start_session(
        options.session, options.goal, options.plan, options.kernel, _read_budget(options)
    )
    lines = [f"opened {opened.path}"]
    if opened.previous:
        lines.append(f"{opened.previous} is not closed; kb session close {opened.previous}")
    about = opened.session.kernel
    lines.append(f"next: kb triage {about}" if about else "next: kb show kernels")
    return print_record(opened.session, lines, as_json=options.json)


def _read_budget(options: Namespace) -> dict[str, float] | None:
    given = {
        name: getattr(options, name)
        for name in ("attempts", "minutes", "device_seconds")
        if getattr(options, name) is not None
    }
    return given or None


def _add_log_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--goal", required=True)
    parser.add_argument("--kernel", type=read_kernel_name)
    parser.add_argument("--variant")
    parser.add_argument("--target", choices=("cpu", "cuda"))
    parser.add_argument(
        "--session", help="id; default: the open one, else today's with that kernel"
    )
    _add_lesson_arguments(parser)


def _run_log(options: Namespace) -> int:
    from kernelkb.actions.sessions.sessions import explain_unused_session, log_retrospective

    reason = None if options.session else explain_unused_session()
    entry, path = log_retrospective(
        {
            "goal": options.goal,
            "kernel": options.kernel,
            "variant": options.variant,
            "target": options.target,
            "session": options.session,
            **_read_lesson_options(options),
        }
    )
    line = f"appended to {path}" + (f", {reason}" if reason else "")
    return print_record(entry, [line], as_json=options.json)


def _add_close_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="ID", help="default: the open one")
    _add_lesson_arguments(parser)


def _run_close(options: Namespace) -> int:
    from kernelkb.actions.sessions.sessions import close_session

    entry, path = close_session(options.session, _read_lesson_options(options))
    return print_record(entry, [f"closed {path}"], as_json=options.json)


def _add_lesson_arguments(parser: ArgumentParser) -> None:
    """Add what was learnt, and the cost."""
    parser.add_argument("--went-wrong", action="append", default=[], metavar="TEXT")
    parser.add_argument("--went-right", action="append", default=[], metavar="TEXT")
    parser.add_argument("--pattern-candidate", action="append", default=[], metavar="TEXT")
    parser.add_argument("--cost-usd", type=float, metavar="USD")


def _read_lesson_options(options: Namespace) -> dict[str, Any]:
    """Return what ``_add_lesson_arguments`` added, as fields of an entry."""
    return {
        "went_wrong": options.went_wrong,
        "went_right": options.went_right,
        "pattern_candidates": options.pattern_candidate,
        "cost_usd": options.cost_usd,
    }


def _add_no_arguments(_parser: ArgumentParser) -> None:
    pass


def _run_list(options: Namespace) -> int:
    from kernelkb.actions.sessions.sessions import list_sessions
    from kernelkb.render.text.sessions import format_session_lines

    found = list_sessions()
    return print_record(found, format_session_lines(found), as_json=options.json)


def _add_session_argument(parser: ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", default="last", help="a session's id; default: last")


def _add_show_arguments(parser: ArgumentParser) -> None:
    _add_session_argument(parser)
    parser.add_argument(
        "--brief",
        action="store_true",
        help="where it stands, what was tried, the next call: at most 2 kB",
    )


def _run_show(options: Namespace) -> int:
    if options.brief:
        return _print_brief(options)
    from kernelkb.actions.sessions.sessions import load_session
    from kernelkb.render.text.sessions import format_entry_lines, format_header_lines

    session = load_session(options.session)
    lines = list(format_header_lines(session))
    for entry in session.entries:
        lines += format_entry_lines(entry)
    return print_record(session, lines, as_json=options.json)


def _print_brief(options: Namespace) -> int:
    from kernelkb.actions.sessions.session_brief import brief_session

    brief = brief_session(None if options.session == "last" else options.session)
    return print_record({"brief": brief}, brief.splitlines(), as_json=options.json)


def _run_metrics(options: Namespace) -> int:
    from kernelkb.actions.sessions.sessions import compute_session_metrics
    from kernelkb.render.text.sessions import format_outcome_lines

    found = compute_session_metrics(options.session)
    return print_record(found, format_outcome_lines(found), as_json=options.json)


def _run_review(options: Namespace) -> int:
    """Write a session's review file, or check it; return 1 if it has problems."""
    from kernelkb.actions.sessions.learn import (
        get_threshold_values,
        preview_review,
        write_review_template,
    )
    from kernelkb.render.text.sessions import format_preview_lines

    session, path, is_new = write_review_template(options.session)
    if is_new:
        next_step = f"fill it in, then run kb session review {session} again to check it"
        written = {"file": str(path), "written": True}
        return print_record(written, [f"wrote {path}", next_step], as_json=options.json)
    preview = preview_review(session)
    lines = format_preview_lines(preview, get_threshold_values())
    print_record(preview, lines, as_json=options.json)
    return int(bool(preview.problems))


VERBS = {
    "new": Verb(
        "write down a plan and open a session: verbs log into it by themselves",
        _add_new_arguments,
        _run_new,
    ),
    "log": Verb("append a retrospective", _add_log_arguments, _run_log),
    "close": Verb("end a session", _add_close_arguments, _run_close),
    "list": Verb("print all sessions", _add_no_arguments, _run_list),
    "show": Verb("print a session's plan and entries", _add_show_arguments, _run_show),
    "metrics": Verb(
        "say how a session went: time, changes, speedup, cost", _add_session_argument, _run_metrics
    ),
    "review": Verb(
        "write a session's review file, or check it and print what it changes",
        _add_session_argument,
        _run_review,
    ),
}
