"""Split long answers into pages: MCP clients truncate or hide longer ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_ANSWER_BYTES = 8000
"""Maximum bytes of one answer as compact JSON."""
_MAX_VALUE_BYTES = 4000
"""Maximum bytes of one value; longer ones are sent as text, in pieces."""
_PIECE_CHARS = 1000
"""Characters of a piece; JSON escapes take at most six bytes each."""


class ResultPage(NamedTuple):
    """One page of an answer, and the cursor of the next."""

    value: Any
    cursor: str | None
    """None on the last page."""


def json_size(value: Any) -> int:
    """Return the size of plain data as compact JSON, in bytes."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def paginate(content: dict[str, Any] | list[Any], begin: int, max_bytes: int) -> ResultPage:
    """Return the next page of an entry or a list.

    Fields keep their order, and lists are split between items. A field that continues on the next
    page continues there under its own name.

    Args:
        content: An entry or a list of entries, as plain data.
        begin: Number of parts on earlier pages.
        max_bytes: Maximum size of the page as compact JSON.
    """
    parts = list(_iter_parts({"": content} if isinstance(content, list) else content))
    page: dict[str, Any] = {}
    used, at = 2, begin
    for at in range(begin, len(parts)):
        name, part, is_item = parts[at]
        used += json_size(part) + 1 + (0 if name in page else json_size(name) + 4)
        if used > max_bytes and at > begin:
            break
        if is_item:
            page.setdefault(name, []).append(part)
        elif name in page:
            page[name] += part
        else:
            page[name] = part
    else:
        at = len(parts)
    value = page.get("", []) if isinstance(content, list) else page
    return ResultPage(value, str(at) if at < len(parts) else None)


def _iter_parts(whole: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield (field, part, is_list_item) for each part that is not split further."""
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
