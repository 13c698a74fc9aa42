"""Finds and ranks the knowledge entries that match a query of words, ids or metric names.

Misspelt words are matched too.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import BaseModel
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

from kernelkb.graph.build import Graph

_FIELD_WEIGHTS = {"id": 4.0, "title": 3.0, "words": 1.0}
"""Factor on the score of a word, by the field that it is in (judgement)."""

_KIND_WEIGHTS = {
    "bottleneck": 1.5,
    "symptom": 1.5,
    "fix": 1.2,
    "pattern": 1.2,
    "tree": 1.0,
    "guard": 1.0,
    "workflow": 1.0,
    "metric": 0.9,
    "threshold": 0.7,
}
"""Factor on the score of an entry, by kind: causes and fixes before limits (judgement)."""
_UNINDEXED_FIELDS = {"sources", "unless", "evidence", "group", "target", "targets", "level"}

_MIN_SIMILARITY = 0.85
"""Least Jaro-Winkler similarity of two spellings or forms of one word (judgement)."""

_STOP_WORDS = frozenset(
    (
        "a", "an", "and", "are", "as", "at", "by", "do", "for", "from", "has", "in", "is", "it",
        "its", "my", "no", "not", "of", "on", "or", "than", "that", "the", "this", "to", "too",
        "what", "when", "which", "why", "with",
    )
)  # fmt: skip


class Hit(NamedTuple):
    """One entry that matches a query."""

    kind: str
    id: str
    title: str
    score: float


class SearchIndex(NamedTuple):
    """The words of every entry."""

    weights: Mapping[str, Mapping[str, float]]
    """For each word and node, the weight of the best field that holds the word."""
    titles: Mapping[str, str]
    """By node."""


def build_search_index(graph: Graph) -> SearchIndex:
    """Return the words of every entry of a graph."""
    weights: dict[str, dict[str, float]] = defaultdict(dict)
    titles: dict[str, str] = {}
    for node, data in graph.nodes(data=True):
        record = data.get("record")
        if data["kind"] not in _KIND_WEIGHTS or record is None:
            continue
        titles[node] = _get_entry_title(record)
        for field, text in _iter_texts(node, record):
            for word in extract_words(text):
                weights[word][node] = max(weights[word].get(node, 0.0), _FIELD_WEIGHTS[field])
    return SearchIndex(dict(weights), titles)


def search(
    search_index: SearchIndex, query: str, *, kind: str | None = None, max_count: int = 10
) -> list[Hit]:
    """Return the entries that match a query, the best first.

    Every word of the query adds the weight of its best field in an entry, times the squared
    similarity, times its rarity among the entries. Each missing word halves the score.

    Args:
        search_index: The words of every entry.
        query: Ids, words of a symptom, raw metric names.
        kind: Return only entries of this kind; None: of all kinds.
        max_count: Maximum number of hits.
    """
    words = list(_iter_query_words(search_index, query))
    scores: dict[str, list[float]] = defaultdict(list)
    for word in words:
        best: dict[str, float] = {}
        for known, similarity in _iter_similar_words(search_index, word):
            for node, weight in search_index.weights[known].items():
                best[node] = max(best.get(node, 0.0), weight * similarity**2)
        for node, score in best.items():
            scores[node].append(score * math.log(1 + len(search_index.titles) / len(best)))
    hits = []
    for node, parts in scores.items():
        node_kind, _, name = node.partition(":")
        score = sum(parts) * _KIND_WEIGHTS[node_kind] / 2 ** (len(words) - len(parts))
        if kind in (None, node_kind):
            hits.append(Hit(node_kind, name, search_index.titles[node], round(score, 2)))
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:max_count]


def extract_words(text: str) -> list[str]:
    """Return the words of a text without stop words; hyphens and underscores separate words.

    A word that begins with "un" or "non" is also returned without that prefix.
    """
    words = [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]
    bare = [re.sub(r"^(?:un|non)(?=[a-z]{5})", "", word) for word in words]
    return list(dict.fromkeys([*words, *bare]))


def _iter_query_words(search_index: SearchIndex, query: str) -> Iterator[str]:
    """Yield the words of a query; an unknown word made of two known ones counts as two."""
    known = search_index.weights.keys()
    for word in extract_words(query):
        cuts = range(3, len(word) - 2) if word not in known else ()
        pairs = ((word[:cut], word[cut:]) for cut in cuts)
        yield from next((pair for pair in pairs if set(pair) <= known), (word,))


def _iter_similar_words(search_index: SearchIndex, word: str) -> Iterator[tuple[str, float]]:
    """Yield the known words that a word of a query may mean, and their similarity, 0 to 1."""
    for known, similarity, _ in process.extract(
        word,
        list(search_index.weights),
        scorer=JaroWinkler.normalized_similarity,
        score_cutoff=_MIN_SIMILARITY,
        limit=None,
    ):
        yield known, similarity


def _iter_texts(node: str, record: BaseModel) -> Iterator[tuple[str, str]]:
    yield "id", node.partition(":")[2]
    yield "title", _get_entry_title(record)
    for field in type(record).model_fields:
        if field not in _UNINDEXED_FIELDS:
            yield from (("words", text) for text in _iter_strings(getattr(record, field)))


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _iter_strings((*value.keys(), *value.values()))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _iter_strings(inner)


def _get_entry_title(record: BaseModel) -> str:
    for field in ("title", "do", "check", "because", "why"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""
