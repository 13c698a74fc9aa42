"""Searches the knowledge entries and the commands by words.

The index is kept in a file, keyed by the content of the knowledge, as the compiled rules are: to
build it takes seconds, which a search must not.
"""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from kernelkb import __version__
from kernelkb.commands import COMMANDS, spell_command
from kernelkb.decide.symptoms import FirstError, PossibleEntry, SymptomMatch, find_symptoms
from kernelkb.graph.search import Hit, search
from kernelkb.graph.search_index import (
    INDEX_SCHEMA,
    SearchIndex,
    build_search_index,
    dump_search_index,
    parse_search_index,
)
from kernelkb.loading.digest import find_cache_key
from kernelkb.safety.paths import cache_folder, overlay_folder, shipped_folder

if TYPE_CHECKING:
    from kernelkb.decide.rules import SymptomRow

_MAX_SAID = 2
_SAID_SCORE = 10.0
"""Of a symptom whose message is all that a question shares with the knowledge."""
_MAX_POSSIBLE = 3
"""Entries offered for an error that no symptom names."""
_ADVISING_KINDS = frozenset({"symptom", "fix", "bottleneck", "pattern"})
_NO_COLON = re.compile(r"(?<=undefined symbol) (?=\w)")
"""A message as people type it."""
_NO_SUBJECT = re.compile(
    r"\S*[/\\]\S*|\b0x[0-9a-fA-F]+\b|\b\d[\d.:,]*\b|\b(?:\w+\.)*\w+\.(?:py|cu|cuh|cpp|h|c)\b:?"
    r"|\b(?:error|fatal|warning|Runtime\w*Error|Value\w*Error|Type\w*Error)\b:?"
)
"""Paths, numbers and the word error itself, which say nothing of the subject."""


def find_entries(
    query: str, *, kind: str | None = None, limit: int = 10, field_only: bool = False
) -> list[Hit]:
    """Return the entries that answer a question, the best first; none if nothing fits.

    A symptom whose message stands in the question comes before those that share words with it. See
    ``kernelkb.graph.search.search``.

    Raises:
        KnowledgeError: The knowledge is wrong (it is only read when no file holds its index).
    """
    content = find_cache_key(shipped_folder("knowledge"), overlay_folder())
    index = _load_index(content)
    found = search(index, query, kind=kind, max_count=limit, field_only=field_only)
    said = [] if field_only or kind not in (None, "symptom") else _find_said(query)
    best = found[0].score if found else _SAID_SCORE
    first = [Hit("symptom", row["id"], row["title"], best) for row in said]
    names = {hit.id for hit in first}
    return [*first, *(hit for hit in found if hit.id not in names)][:limit]


def _find_said(query: str) -> list[SymptomRow]:
    """Return the symptoms whose own message a question holds, at most two."""
    from kernelkb.actions.project.rules_cache import load_compiled_rules

    rules = load_compiled_rules()
    rows = {row["id"]: row for row in rules["symptoms"] if not row["fallback"]}
    found = [
        rows[match["symptom"]]
        for match in find_symptoms(rules, _NO_COLON.sub(": ", query))
        if match["symptom"] in rows
    ]
    return found[:_MAX_SAID]


def find_possible_entries(
    symptoms: list[SymptomMatch], error: FirstError | None
) -> list[PossibleEntry]:
    """Return the entries that share words with an error that no symptom names; they are no cure.

    Args:
        symptoms: What was found in a log.
        error: Its first error line.

    Raises:
        KnowledgeError: The knowledge is wrong.
    """
    if error is None or any(row["severity"] == "error" for row in symptoms):
        return []
    found = find_entries(_NO_SUBJECT.sub(" ", error["said"]), limit=12, field_only=True)
    hits = islice((hit for hit in found if hit.kind in _ADVISING_KINDS), _MAX_POSSIBLE)
    return [{"kind": hit.kind, "id": hit.id, "title": hit.title} for hit in hits]


@lru_cache(maxsize=2)
def _load_index(content: str) -> SearchIndex:
    """Return the index of the knowledge with this digest, from its file if there is one."""
    commands = crc32(repr(COMMANDS).encode())  # the entries that are not of the knowledge
    name = f"search-{__version__}-{INDEX_SCHEMA}-{commands:08x}-{content}.sqlite"
    path = Path(cache_folder()) / name
    return _read_index(path) or _build_and_keep_index(path)


def describe_commands() -> dict[str, str]:
    """Return what each command does, by how it is written."""
    return {spell_command(name): summary for name, (_, _, summary) in COMMANDS.items()}


def _read_index(path: Path) -> SearchIndex | None:
    try:
        # A FIFO, which would wait for a writer, is no file.
        return parse_search_index(path.read_bytes()) if path.is_file() else None
    except (OSError, sqlite3.Error, TypeError):
        return None


def _build_and_keep_index(path: Path) -> SearchIndex:
    # These imports take half a second, only when the knowledge has changed.
    from kernelkb.actions.knowledge.knowledge import load_project_knowledge
    from kernelkb.graph.build import build_graph
    from kernelkb.graph.search_documents import list_documents
    from kernelkb.safety.files import keep_file

    knowledge = load_project_knowledge()
    documents = list_documents(build_graph(knowledge), knowledge, describe_commands())
    terms = knowledge.search_terms
    index = build_search_index(documents, terms.get_word_lists(), terms.usual_causes)
    keep_file(path, dump_search_index(index))
    return index
