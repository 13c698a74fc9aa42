"""Keep results short: clients cut what is long, in the middle, and without saying so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json

from kernelkb_mcp.results import LongResult

BUDGET = 6500
"""Bytes of a result as compact JSON; with a job around it, it stays below 8,000."""
_MOST_ROWS = 16
_FEW_ROWS = 4
_LONG_TEXT = 300
_KEPT = ("next", "job", "left_out")
"""What is never shortened: the verdict and the numbers are no lists and no long texts."""

R = TypeVar("R", bound=LongResult)


class _Part(NamedTuple):
    """Something in a result that can be shorter."""

    holder: Any
    key: Any
    path: str

    @property
    def value(self) -> Any:
        return self.holder[self.key]


def fitted(result: R, shown_by: str) -> R:
    """Return a result that fits: long lists and texts cut, with a sentence on each that was.

    Args:
        result: Of a tool.
        shown_by: The command that shows all of it.
    """
    data = result.model_dump(mode="json", by_alias=True)
    whole: dict[str, int] = {}
    for part in list(_parts(data)):
        if not isinstance(part.value, str | dict) and len(part.value) > _MOST_ROWS:
            _cut(part, _MOST_ROWS, whole)
    while _size(data, whole, shown_by) > BUDGET:
        longest = max(_parts(data), key=lambda part: len(to_json(part.value)), default=None)
        if longest is None:
            break
        _cut(longest, len(longest.value) // 2, whole)
    if not whole:
        return result
    data["left_out"] = _said(data, whole, shown_by)
    return type(result).model_validate(data)


def _parts(data: Any, path: str = "") -> Iterator[_Part]:
    """Walk over what can be shorter: longer lists and tables of numbers, and texts."""
    rows = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in rows:
        if not path and key in _KEPT:
            continue
        part = _Part(data, key, f"{path}.{key}" if path else str(key))
        if _long(value):
            yield part
        if isinstance(value, dict | list):
            yield from _parts(value, part.path)


def _long(value: Any) -> bool:
    """Whether something may be cut: pairs, records and short texts may not."""
    if isinstance(value, str):
        return len(value) > _LONG_TEXT
    if isinstance(value, list):
        return len(value) >= _FEW_ROWS
    numbers = isinstance(value, dict) and all(isinstance(v, int | float) for v in value.values())
    return numbers and len(value) >= _FEW_ROWS


def _cut(part: _Part, to: int, whole: dict[str, int]) -> None:
    value = part.value
    whole.setdefault(part.path, len(value))
    if isinstance(value, str):
        part.holder[part.key] = value[: max(to, _LONG_TEXT - 1)].rstrip("…") + "…"
    elif isinstance(value, dict):
        part.holder[part.key] = dict(list(value.items())[:to])
    else:
        part.holder[part.key] = value[:to]


def _said(data: Any, whole: dict[str, int], shown_by: str) -> str:
    """Say how much was left out, and where all of it is."""
    cuts = []
    for path, length in whole.items():
        value = data
        for key in path.split("."):
            value = value[int(key) if isinstance(value, list) else key]
        what = "characters of " if isinstance(value, str) else ""
        cuts.append(f"{length - len(value):,} of {length:,} {what}{path}")
    return f"left out for length: {'; '.join(cuts)}. {shown_by} shows all of it"


def _size(data: Any, whole: dict[str, int], shown_by: str) -> int:
    return len(to_json(data)) + (len(_said(data, whole, shown_by).encode()) if whole else 0)
