"""How sessions went: one, two side by side, or all of them in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelkb.actions.sessions import list_sessions, show_session
from kernelkb.errors import BadValueError, SessionError, UnknownNameError
from kernelkb.model.outcome import Contrasts, Outcomes, Trend
from kernelkb.model.session import Session
from kernelkb.record.compare_sessions import contrast
from kernelkb.record.outcomes import outcomes


def session_named(name: str = "last") -> Session:
    """Return a session of the project.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else or nothing.
    """
    return show_session(name)


def session_metrics(name: str = "last") -> Outcomes:
    """Return how one session went.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file holds something else or nothing.
    """
    return outcomes(session_named(name))


def compare_sessions(before: str, after: str) -> Contrasts:
    """Return two sessions side by side.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: A file holds something else or nothing.
    """
    return contrast(session_metrics(before), session_metrics(after))


def session_trend(kernel: str | None = None) -> Trend:
    """Return how all sessions went, oldest first.

    Args:
        kernel: Only sessions with this kernel, and of these only what concerns it.

    Raises:
        UnknownNameError: No session has that kernel.
        SessionError: There is no session, or a file holds something else or nothing.
    """
    every = [session_named(line.session) for line in list_sessions()]
    if not every:
        raise SessionError("no session was recorded here; kb triage KERNEL records one")
    if kernel is not None:
        known = sorted(set().union(*map(_kernels, every)))
        if kernel not in known:
            raise UnknownNameError("kernel of a session", kernel, known, "kb session trend")
        every = [_only(one, kernel) for one in every if kernel in _kernels(one)]
    return _trend([outcomes(one) for one in every])


def _kernels(session: Session) -> set[str]:
    named = {entry.kernel for entry in session.entries} | {session.kernel}
    return {name for name in named if name}


def _only(session: Session, kernel: str) -> Session:
    """Leave out the entries of other kernels; notes that name none stay."""
    kept = tuple(entry for entry in session.entries if entry.kernel in (kernel, None))
    return session.model_copy(update={"entries": kept, "kernel": kernel})


def _trend(found: Sequence[Outcomes]) -> Trend:
    minutes = [one.minutes for one in found if one.minutes is not None]
    costs = [one.cost_usd for one in found if one.cost_usd is not None]
    return Trend(
        sessions=tuple(sorted(found, key=lambda one: (one.opened, one.session))),
        minutes=sum(minutes) if minutes else None,
        timed=len(minutes),
        cost_usd=sum(costs) if costs else None,
        priced=len(costs),
    )


def plot_trend(trend: Trend, file: str) -> Path:
    """Draw a trend into an SVG file and return its path.

    Raises:
        BadValueError: The name of the file does not end in ``.svg``.
        SessionError: The file cannot be written.
    """
    path = Path(file)
    if path.suffix.lower() != ".svg":
        raise BadValueError(f"--plot {file!r} is no SVG; name a file that ends in .svg")
    from kernelkb.render.trend import trend_svg

    try:
        path.write_text(trend_svg(trend.sessions), encoding="utf-8")
    except OSError as error:
        raise SessionError(f"cannot write {path}: {error.strerror}; name another file") from error
    return path
