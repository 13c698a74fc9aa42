"""Formats the symptoms that ``kb diagnose`` found in a log as text."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.decide.symptoms import FirstError, LogExtent, SymptomMatch


def format_diagnosis_lines(
    matches: list[SymptomMatch], error: FirstError | None, read: LogExtent, source: str
) -> Iterator[str]:
    """Yield the symptoms; where none is an error the first error line; then what was read.

    Args:
        matches: The symptoms in the log.
        error: Its first error line.
        read: How much of it was read.
        source: The file, or ``stdin``.
    """
    yield from format_symptom_lines(matches)
    if error and not any(row["severity"] == "error" for row in matches):
        yield f"first error (line {error['line']}): {error['said']}"
    elif not matches:
        yield "no line reports an error"
    yield _format_extent(read, source)


def format_symptom_lines(matches: list[SymptomMatch]) -> Iterator[str]:
    """Yield one block of lines for each symptom, with an empty line in between."""
    for position, row in enumerate(matches):
        if position:
            yield ""
        times = f", {row['times']} times" if row["times"] > 1 else ""
        warning = "" if row["severity"] == "error" else "warning, "
        yield f"{row['symptom']}: {row['title']} ({warning}line {row['line']}{times})"
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


def _format_extent(read: LogExtent, source: str) -> str:
    lines = f"{read['lines']:,} line{'' if read['lines'] == 1 else 's'}"
    if skipped := read["skipped_characters"]:
        return f"read {source}: {lines}, without {skipped:,} characters in the middle"
    return f"read {source}: {lines}"
