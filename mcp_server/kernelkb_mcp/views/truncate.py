"""Shorten long results and report what was cut: clients truncate silently, in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json

from kernelkb_mcp.views.results import LongResult

MAX_RESULT_BYTES = 6500
"""Maximum bytes of a result as compact JSON; wrapped in a job it stays below 8,000."""
_MAX_ROWS = 16
_MIN_CUTTABLE_ROWS = 4
_MAX_TEXT_CHARS = 300
_NEVER_CUT = ("next", "job", "left_out")
"""Fields that are never shortened."""

R = TypeVar("R", bound=LongResult)


class _CuttablePart(NamedTuple):
    """A list, table or text inside a result that may be shortened."""

    holder: Any
    key: Any
    path: str

    @property
    def value(self) -> Any:
        return self.holder[self.key]


def truncate_result(result: R, full_command: str) -> R:
    """Return the result with long lists and texts cut to fit, and each cut described.

    Args:
        result: A tool's result.
        full_command: The command that shows everything.
    """
    data = result.model_dump(mode="json", by_alias=True)
    whole: dict[str, int] = {}
    for part in list(_iter_cuttable_parts(data)):
        if not isinstance(part.value, str | dict) and len(part.value) > _MAX_ROWS:
            _cut(part, _MAX_ROWS, whole)
    while _count_bytes(data, whole, full_command) > MAX_RESULT_BYTES:
        longest = max(
            _iter_cuttable_parts(data), key=lambda part: len(to_json(part.value)), default=None
        )
        if longest is None:
            break
        _cut(longest, len(longest.value) // 2, whole)
    if not whole:
        return result
    data["left_out"] = _describe_cuts(data, whole, full_command)
    return type(result).model_validate(data)


def _iter_cuttable_parts(data: Any, path: str = "") -> Iterator[_CuttablePart]:
    """Yield what may be shortened: longer lists, tables of numbers and texts."""
    rows = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in rows:
        if not path and key in _NEVER_CUT:
            continue
        part = _CuttablePart(data, key, f"{path}.{key}" if path else str(key))
        if _is_cuttable(value):
            yield part
        if isinstance(value, dict | list):
            yield from _iter_cuttable_parts(value, part.path)


def _is_cuttable(value: Any) -> bool:
    """Return whether a value may be cut; pairs, records and short texts may not."""
    if isinstance(value, str):
        return len(value) > _MAX_TEXT_CHARS
    if isinstance(value, list):
        return len(value) >= _MIN_CUTTABLE_ROWS
    numbers = isinstance(value, dict) and all(isinstance(v, int | float) for v in value.values())
    return numbers and len(value) >= _MIN_CUTTABLE_ROWS


def _cut(part: _CuttablePart, length: int, full_lengths: dict[str, int]) -> None:
    value = part.value
    full_lengths.setdefault(part.path, len(value))
    if isinstance(value, str):
        part.holder[part.key] = value[: max(length, _MAX_TEXT_CHARS - 1)].rstrip("…") + "…"
    elif isinstance(value, dict):
        part.holder[part.key] = dict(list(value.items())[:length])
    else:
        part.holder[part.key] = value[:length]


def _describe_cuts(data: Any, full_lengths: dict[str, int], full_command: str) -> str:
    """Describe how much was cut from which field, and the command that shows everything."""
    cuts = []
    for path, length in full_lengths.items():
        value = data
        for key in path.split("."):
            value = value[int(key) if isinstance(value, list) else key]
        what = "characters of " if isinstance(value, str) else ""
        cuts.append(f"{length - len(value):,} of {length:,} {what}{path}")
    return f"left out for length: {'; '.join(cuts)}. {full_command} shows all of it"


def _count_bytes(data: Any, full_lengths: dict[str, int], full_command: str) -> int:
    return len(to_json(data)) + (
        len(_describe_cuts(data, full_lengths, full_command).encode()) if full_lengths else 0
    )
