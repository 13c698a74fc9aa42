"""Search the knowledge by words."""

from __future__ import annotations

from engine.actions.knowledge import here
from engine.graph.build import build_graph
from engine.graph.search import Hit, index, search


def find(query: str, *, kind: str | None = None, most: int = 10) -> list[Hit]:
    """Return the entries that fit a query, the best first; see ``engine.graph.search.search``.

    Raises:
        KnowledgeError: The knowledge is wrong.
    """
    return search(index(build_graph(here())), query, kind=kind, most=most)
