"""Where reports of ``kb profile`` are: one for a record, with what ncu counted by instruction."""

from __future__ import annotations

from pathlib import Path

from kernelkb.model.records.measurement import Profile

_ID_DIGITS = 12


def name_report_by_record(profiled: Profile) -> Profile:
    """Name the file of what was counted by instruction after the profile's record.

    Args:
        profiled: Without a record or such a file it stays as it is, or where renaming fails.
    """
    if profiled.report is None or profiled.measurement is None:
        return profiled
    file = Path(profiled.report)
    named = file.with_name(_file_name(profiled.measurement))
    try:
        file.replace(named)
    except OSError:  # the profile is worth more than the name of its file
        return profiled
    return profiled.model_copy(update={"report": str(named)})


def find_report(project: Path, measurement: str) -> Path | None:
    """Return the file of what was counted by instruction for the record of a profile."""
    file = project / ".kb" / "profiles" / _file_name(measurement)
    return file if file.is_file() else None


def _file_name(measurement: str) -> str:
    return f"{measurement[:_ID_DIGITS]}.ncu-rep"
