"""What an id of read_entry stands for where it names no entry of the knowledge."""

from __future__ import annotations

from typing import Any, NamedTuple


class EntryView(NamedTuple):
    """Something that was measured, to be read like an entry."""

    content: dict[str, Any]
    """As the command of ``kb`` prints it with ``--json``."""
    summary: str
    next: tuple[str, ...]
