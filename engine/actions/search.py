"""Search the knowledge by words."""

from __future__ import annotations

from functools import lru_cache

from kernelkb.actions.knowledge import content, here
from kernelkb.graph.build import build_graph
from kernelkb.graph.search import Hit, Index, index, search


def find(query: str, *, kind: str | None = None, most: int = 10) -> list[Hit]:
    """Return the entries that fit a query, the best first; see ``kernelkb.graph.search.search``.

    Raises:
        KnowledgeError: The knowledge is wrong.
    """
    return search(_indexed(content()), query, kind=kind, most=most)


@lru_cache(maxsize=2)
def _indexed(_content: str) -> Index:
    """Return the index of the knowledge of that content; a server asks it many times."""
    return index(build_graph(here()))
