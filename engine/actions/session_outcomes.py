"""How sessions went: one, two side by side, or all of them in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelkb.actions.sessions import list_sessions, load_session
from kernelkb.errors import BadValueError, NextStep, SessionError, UnknownNameError
from kernelkb.model.outcome import SessionComparison, SessionOutcome, SessionTrend
from kernelkb.model.session import Session
from kernelkb.record.compare_sessions import compare_outcomes
from kernelkb.record.outcomes import compute_session_outcomes


def get_session(name: str = "last") -> Session:
    """Return a session of the project.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else or nothing.
    """
    return load_session(name)


def compute_session_metrics(name: str = "last") -> SessionOutcome:
    """Return how one session went.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else or nothing.
    """
    return compute_session_outcomes(get_session(name))


def compare_sessions(before: str, after: str) -> SessionComparison:
    """Return two sessions side by side.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: A file holds something else or nothing.
    """
    return compare_outcomes(compute_session_metrics(before), compute_session_metrics(after))


def compute_session_trend(kernel: str | None = None) -> SessionTrend:
    """Return how all sessions went, oldest first.

    Args:
        kernel: Only sessions with this kernel, and of these only what concerns it.

    Raises:
        UnknownNameError: No session has that kernel.
        SessionError: There is no session, or a file holds something else or nothing.
    """
    every = [get_session(line.session) for line in list_sessions()]
    if not every:
        records_one = NextStep("triage", {"kernel": None}, "records one")
        raise SessionError("no session was recorded here", next_step=records_one)
    if kernel is not None:
        known = sorted(set().union(*map(_list_kernels, every)))
        if kernel not in known:
            raise UnknownNameError("kernel of a session", kernel, known, "session trend")
        every = [_keep_kernel_entries(one, kernel) for one in every if kernel in _list_kernels(one)]
    return _summarize_trend([compute_session_outcomes(one) for one in every])


def _list_kernels(session: Session) -> set[str]:
    named = {entry.kernel for entry in session.entries} | {session.kernel}
    return {name for name in named if name}


def _keep_kernel_entries(session: Session, kernel: str) -> Session:
    """Leave out the entries of other kernels; notes that name none stay."""
    kept = tuple(entry for entry in session.entries if entry.kernel in (kernel, None))
    return session.model_copy(update={"entries": kept, "kernel": kernel})


def _summarize_trend(found: Sequence[SessionOutcome]) -> SessionTrend:
    minutes = [one.minutes for one in found if one.minutes is not None]
    costs = [one.cost_usd for one in found if one.cost_usd is not None]
    return SessionTrend(
        sessions=tuple(sorted(found, key=lambda one: (one.opened, one.session))),
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
    from kernelkb.render.trend import render_trend_charts

    try:
        path.write_text(render_trend_charts(trend.sessions), encoding="utf-8")
    except OSError as error:
        raise SessionError(f"cannot write {path}: {error.strerror}; name another file") from error
    return path
