"""Searches the knowledge entries and the commands by words."""

from __future__ import annotations

from functools import lru_cache

from kernelkb.actions.commands import COMMANDS
from kernelkb.actions.knowledge import knowledge_digest, load_project_knowledge
from kernelkb.graph.build import build_graph
from kernelkb.graph.search import Hit, SearchIndex, build_search_index, search
from kernelkb.graph.search_documents import list_documents


def find_entries(query: str, *, kind: str | None = None, limit: int = 10) -> list[Hit]:
    """Return the entries that answer a question, the best first; none if nothing fits.

    See ``kernelkb.graph.search.search``.

    Raises:
        KnowledgeError: The knowledge is wrong.
    """
    return search(_load_index(knowledge_digest()), query, kind=kind, max_count=limit)


@lru_cache(maxsize=2)
def _load_index(_digest: str) -> SearchIndex:
    """Return the search index, cached by the digest of the knowledge."""
    knowledge = load_project_knowledge()
    return build_search_index(list_documents(build_graph(knowledge), knowledge, COMMANDS))
