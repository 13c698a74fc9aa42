"""Bar charts of session outcomes as Mermaid text, which Git hosts and editors draw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from kernelkb.model.records.outcome import SessionOutcome

_CHARTS: tuple[tuple[str, Callable[[SessionOutcome], float | None]], ...] = (
    (
        "Final speedup over the baseline",
        lambda session: session.final.speedup if session.final else None,
    ),
    ("Minutes", lambda session: session.minutes),
    ("Wrong changes: slower or incorrect", lambda session: session.wrong_changes),
    ("Cost in USD", lambda session: session.cost_usd),
)
"""Title and value of each chart. The table of ``kb session trend`` has the other columns."""


def render_trend_charts(sessions: Sequence[SessionOutcome]) -> str:
    """Return a Markdown page with one Mermaid bar chart per quantity, oldest session on the left.

    A session whose record does not hold a quantity is left out of that chart: it has no bar of
    height zero. A session that was written down afterwards is marked ``(reported)``.
    """
    return "\n".join(["# Sessions over time", *_iter_lines(sessions), ""])


def _iter_lines(sessions: Sequence[SessionOutcome]) -> Iterator[str]:
    for title, get_value in _CHARTS:
        bars = [(s, value) for s in sessions if (value := get_value(s)) is not None]
        if not bars:
            yield f"\n{title}: not recorded in any session."
            continue
        names = [s.session + " (reported)" * (s.kind == "reported") for s, _ in bars]
        yield from ("", "```mermaid", "xychart-beta", f'    title "{title}"')
        yield f"    x-axis {json.dumps(names)}"
        yield f"    bar [{', '.join(f'{value:.4f}' for _, value in bars)}]"  # no 1e-9 in Mermaid
        yield "```"
