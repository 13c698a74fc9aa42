"""Formats the symptoms that ``kb diagnose`` found in a log as text."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.decide.symptoms import SymptomMatch


def format_symptom_lines(matches: list[SymptomMatch]) -> Iterator[str]:
    """Yield one block of lines for each symptom, with an empty line in between."""
    for position, row in enumerate(matches):
        if position:
            yield ""
        times = f", {row['times']} times" if row["times"] > 1 else ""
        yield f"{row['symptom']}: {row['title']} (line {row['line']}{times})"
        yield f"  said: {row['said']}"
        yield from (f"  {name}: {value}" for name, value in row["captured"].items())
        yield f"  cause: {row['cause']}"
        if row["note"]:
            yield f"  note: {row['note']}"
        yield f"  cure: {row['cure']}"
        yield f"  check: {row['check']}"
        if row["fixes"]:
            yield f"  fixes: {', '.join(row['fixes'])}"
        if row["pattern"]:
            yield f"  pattern: {row['pattern']}"
    if not matches:
        yield "no known symptom; kb show symptoms lists the known ones"
