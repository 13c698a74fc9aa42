"""Answers in portions that a client shows whole: clients cut or hide what is longer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_ANSWER_BYTES = 8000
"""Bytes of one answer as compact JSON."""
_MAX_VALUE_BYTES = 2000
"""Bytes of one value; longer ones come as text, in pieces."""
_PIECE_CHARS = 1000
"""Characters of a piece: none takes more than six bytes."""


class ResultPage(NamedTuple):
    """What fits, and where the rest begins."""

    value: Any
    cursor: str | None
    """None where nothing is left."""


def json_size(value: Any) -> int:
    """Return how many bytes plain data takes as compact JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def paginate(content: dict[str, Any] | list[Any], begin: int, max_bytes: int) -> ResultPage:
    """Return as much of an entry or a list as fits.

    Fields keep their order and lists are cut between items. A field that goes on in the next
    portion goes on there under its own name.

    Args:
        content: An entry or a list of entries, as plain data.
        begin: How many parts came before.
        max_bytes: Bytes of compact JSON.
    """
    parts = list(_iter_parts({"": content} if isinstance(content, list) else content))
    taken: dict[str, Any] = {}
    used, at = 2, begin
    for at in range(begin, len(parts)):
        name, part, is_item = parts[at]
        used += json_size(part) + 1 + (0 if name in taken else json_size(name) + 4)
        if used > max_bytes and at > begin:
            break
        if is_item:
            taken.setdefault(name, []).append(part)
        elif name in taken:
            taken[name] += part
        else:
            taken[name] = part
    else:
        at = len(parts)
    value = taken.get("", []) if isinstance(content, list) else taken
    return ResultPage(value, str(at) if at < len(parts) else None)


def _iter_parts(whole: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield each field, or each item of it, as what cannot be cut any further."""
    for name, value in whole.items():
        if isinstance(value, list) and value:
            for item in value:
                if json_size(item) > _MAX_VALUE_BYTES:
                    yield from ((name, piece, True) for piece in _split_into_pieces(item))
                else:
                    yield name, item, True
        elif json_size(value) > _MAX_VALUE_BYTES:
            yield from ((name, piece, False) for piece in _split_into_pieces(value))
        else:
            yield name, value, False


def _split_into_pieces(value: Any) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    yield from (text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS))
