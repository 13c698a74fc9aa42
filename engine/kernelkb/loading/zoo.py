"""Reads and writes the recordings of measured pairs: JSON Lines, one file for each GPU."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from kernelkb.errors import KnowledgeError, Problem
from kernelkb.model.kernels.zoo import PairRecording
from kernelkb.safety.replace_file import replace_file

_DIGITS = 7
"""Significant digits of a metric: more than any counter repeats."""


def read_recordings(file: Path) -> list[PairRecording]:
    """Return the recordings of one GPU, in the order of the file.

    Raises:
        KnowledgeError: A line is not a recording; carries every problem.
    """
    rows: list[PairRecording] = []
    problems: list[Problem] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(PairRecording.model_validate_json(line))
        except ValidationError as error:
            text = error.errors()[0]["msg"]
            problems.append(Problem(str(file), number, 1, "", text))
    if problems:
        raise KnowledgeError(problems)
    return rows


def format_recording(recording: PairRecording) -> str:
    """Return one line, with metrics in alphabetical order."""
    fields = recording.model_dump(mode="json")
    for side in ("before", "after"):
        metrics = fields[side]["metrics"]
        fields[side]["metrics"] = {n: float(f"{metrics[n]:.{_DIGITS}g}") for n in sorted(metrics)}
        rules = fields[side]["ncu_rules"]
        fields[side]["ncu_rules"] = {name: round(rules[name], 4) for name in sorted(rules)}
    return json.dumps(fields) + "\n"


def write_recordings(file: Path, recordings: Iterable[PairRecording]) -> None:
    """Write recordings, by name; one of the same pair replaces that in the file."""
    rows = {row.kernel: row for row in (read_recordings(file) if file.is_file() else [])}
    rows.update((row.kernel, row) for row in recordings)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(format_recording(rows[name]) for name in sorted(rows))
    replace_file(file, text)
