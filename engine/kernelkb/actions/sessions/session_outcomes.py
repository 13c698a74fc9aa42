"""Success metrics of recorded sessions: one session, two compared, or the trend of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.sessions.follow_steps import step_to_open
from kernelkb.actions.sessions.sessions import list_sessions, load_session
from kernelkb.errors import BadValueError, SessionError, UnknownNameError
from kernelkb.model.records.outcome import SessionComparison, SessionOutcome, SessionTrend
from kernelkb.model.records.session import Session
from kernelkb.record.compare_sessions import compare_outcomes
from kernelkb.record.outcomes import compute_session_outcomes
from kernelkb.safety.replace_file import replace_file
from kernelkb.safety.storage import describe_write_cure


def get_session(name: str = "last") -> Session:
    """Return a session of the project.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file is invalid.
    """
    return load_session(name)


def compute_session_metrics(name: str = "last") -> SessionOutcome:
    """Return the success metrics of one session.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file is invalid.
    """
    return compute_session_outcomes(get_session(name))


def compare_sessions(before: str, after: str) -> SessionComparison:
    """Compare the success metrics of two sessions.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: A file is invalid.
    """
    return compare_outcomes(compute_session_metrics(before), compute_session_metrics(after))


def compute_session_trend(kernel: str | None = None) -> SessionTrend:
    """Return the success metrics of all sessions, oldest first.

    Args:
        kernel: Only sessions with this kernel, and only their entries about it.

    Raises:
        UnknownNameError: No session has that kernel.
        SessionError: There is no session, or a file is invalid.
    """
    sessions = [get_session(summary.session) for summary in list_sessions()]
    if not sessions:
        opens_one = step_to_open(None, get_project_path())
        raise SessionError("no session was recorded here", next_step=opens_one)
    if kernel is not None:
        known = sorted(set().union(*map(_list_kernels, sessions)))
        if kernel not in known:
            raise UnknownNameError("kernel of a session", kernel, known, "session trend")
        sessions = [
            _keep_kernel_entries(session, kernel)
            for session in sessions
            if kernel in _list_kernels(session)
        ]
    return _summarize_trend([compute_session_outcomes(session) for session in sessions])


def _list_kernels(session: Session) -> set[str]:
    named = {entry.kernel for entry in session.entries} | {session.kernel}
    return {name for name in named if name}


def _keep_kernel_entries(session: Session, kernel: str) -> Session:
    """Remove the entries of other kernels; keep those that name none."""
    kept = tuple(entry for entry in session.entries if entry.kernel in (kernel, None))
    return session.model_copy(update={"entries": kept, "kernel": kernel})


def _summarize_trend(outcomes: Sequence[SessionOutcome]) -> SessionTrend:
    minutes = [one.minutes for one in outcomes if one.minutes is not None]
    costs = [one.cost_usd for one in outcomes if one.cost_usd is not None]
    return SessionTrend(
        sessions=tuple(sorted(outcomes, key=lambda one: (one.opened, one.session))),
        minutes=sum(minutes) if minutes else None,
        timed=len(minutes),
        cost_usd=sum(costs) if costs else None,
        priced=len(costs),
    )


def plot_trend(trend: SessionTrend, file: str) -> Path:
    """Write a trend as Mermaid charts into a Markdown file and return its path.

    Raises:
        BadValueError: The name of the file does not end in ``.md``.
        SessionError: The file cannot be written.
    """
    path = Path(file)
    if path.suffix.lower() != ".md":
        raise BadValueError(
            f"--plot {file!r}: plots are Mermaid charts in Markdown; name a file that ends in .md"
        )
    from kernelkb.render.text.trend import render_trend_charts

    try:
        replace_file(path, render_trend_charts(trend.sessions))
    except OSError as error:
        cure = describe_write_cure(error, "name another file")
        raise SessionError(f"cannot write {path}: {error.strerror}; {cure}") from error
    return path
