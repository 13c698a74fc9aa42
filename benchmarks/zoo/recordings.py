"""Reads and writes recordings of measured pairs: two variants, one change, and what it gave.

They are JSON Lines, one file for each GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from kernelkb.errors import KnowledgeError, Problem
from kernelkb.model.base import Name, Record, Slug
from kernelkb.safety.files import replace_file

_DIGITS = 7
"""Significant digits of a metric: more than any counter repeats."""


class VariantRecording(Record):
    """One variant on one GPU: its time, and the metrics of its profile."""

    variant: Slug
    kernel_us: float = Field(gt=0)
    """Time of one call."""
    metrics: dict[Name, float]
    """By metric id: what the compiler and Nsight Compute report; empty without a profile."""
    ncu_rules: dict[str, float] = Field(default_factory=dict)
    """By rule of Nsight Compute, the share of the kernel's time that it says a fix would remove."""


class PairRecording(Record):
    """A pair on one GPU; one line of ``kernels/zoo/measured/<device>.jsonl``."""

    kernel: Name
    """The folder below ``kernels/zoo/<bottleneck>/``."""
    device: Slug
    driver: str
    workload: Slug
    speedup: float = Field(gt=0)
    """Time before ÷ time after, from paired batches."""
    interval: tuple[float, float] | None = None
    """Of 95 %; None where the times are the profiler's."""
    timed_by: Literal["bench", "profiler"] = "bench"
    """profiler: durations under Nsight Compute, one launch each, until the pair is timed."""
    before: VariantRecording
    after: VariantRecording
    tempting: dict[Slug, float] = Field(default_factory=dict)
    """By variant that tempts, the time before ÷ its time."""
    report: str = ""
    """The compressed binary report, below the folder of reports and the device; empty without."""
    launch: int = 0
    """Index of the launch of ``before`` in it: the longest one of the variant."""
    after_launch: int | None = None
    """Index of that of ``after``; None where it follows."""


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
    tempting = fields.pop("tempting")
    if fields["after_launch"] in (None, fields["launch"] + 1):
        del fields["after_launch"]
    for side in ("before", "after"):
        metrics = fields[side]["metrics"]
        fields[side]["metrics"] = {n: float(f"{metrics[n]:.{_DIGITS}g}") for n in sorted(metrics)}
        rules = fields[side]["ncu_rules"]
        fields[side]["ncu_rules"] = {name: round(rules[name], 4) for name in sorted(rules)}
    if tempting:
        fields["tempting"] = {name: float(f"{tempting[name]:.4g}") for name in sorted(tempting)}
    return json.dumps(fields) + "\n"


def write_recordings(file: Path, recordings: Iterable[PairRecording]) -> None:
    """Write recordings, by name; one of the same pair replaces that in the file."""
    rows = {row.kernel: row for row in (read_recordings(file) if file.is_file() else [])}
    rows.update((row.kernel, row) for row in recordings)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(format_recording(rows[name]) for name in sorted(rows))
    replace_file(file, text)
