"""Find entries of the knowledge by words, whether these are ids, symptoms or typed badly."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from pydantic import BaseModel
from rapidfuzz import process
from rapidfuzz.distance import OSA
from snowballstemmer import stemmer

from kernelkb.graph.build import Graph

_FIELD_WEIGHTS = {"id": 4.0, "title": 3.0, "words": 1.0}
"""Of a word, by where it stands."""

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
"""Of an entry, by its kind: people look for causes and cures before limits."""
_UNINDEXED_FIELDS = frozenset(
    {"sources", "unless", "evidence", "group", "target", "targets", "level"}
)
"""Fields whose words say nothing about an entry."""

_MIN_SIMILARITY = 0.75
"""From which share of equal letters on a word counts as a misspelling of another (judgement)."""

_STOP_WORDS = frozenset(
    (
        "a", "an", "and", "are", "as", "at", "by", "do", "for", "from", "has", "in", "is", "it",
        "its", "my", "no", "not", "of", "on", "or", "than", "that", "the", "this", "to", "too",
        "what", "when", "which", "why", "with",
    )
)  # fmt: skip


_STEMMER = stemmer("english")


class Hit(NamedTuple):
    """One entry that was found."""

    kind: str
    id: str
    title: str
    score: float


class SearchIndex(NamedTuple):
    """Which words stand where, and how telling each is."""

    weights: Mapping[str, Mapping[str, float]]
    """Stem to node to the weight of its best place."""
    titles: Mapping[str, str]
    stems: Mapping[str, str]
    """Word as it is written to its stem."""


def build_search_index(graph: Graph) -> SearchIndex:
    """Return the words of every entry of a graph."""
    weights: dict[str, dict[str, float]] = defaultdict(dict)
    titles: dict[str, str] = {}
    stems: dict[str, str] = {}
    for node, data in graph.nodes(data=True):
        record = data.get("record")
        if data["kind"] not in _KIND_WEIGHTS or record is None:
            continue
        titles[node] = _get_entry_title(record)
        for place, text in _iter_texts(node, record):
            for word in extract_words(text):
                stem = stems.setdefault(word, _stem(word))
                weights[stem][node] = max(weights[stem].get(node, 0.0), _FIELD_WEIGHTS[place])
    return SearchIndex(weights, titles, stems)


def search(
    search_index: SearchIndex, query: str, *, kind: str | None = None, max_count: int = 10
) -> list[Hit]:
    """Return the entries that fit a query, the best first.

    Every word of the query adds the weight of its best place in an entry, times how rare the word
    is, times how alike it is spelt. An entry that misses words of the query counts less.

    Args:
        search_index: The index.
        query: Ids, words of a symptom, raw metric names; misspelt ones are guessed.
        kind: Only entries of this kind.
        max_count: How many at most.
    """
    asked = list(_iter_query_words(search_index, query))
    scores: dict[str, float] = defaultdict(float)
    missed: dict[str, int] = defaultdict(lambda: len(asked))
    for word in asked:
        best: dict[str, float] = {}
        for known, alike in _iter_similar_stems(search_index, word):
            places = search_index.weights[known]
            rare = math.log(1 + len(search_index.titles) / len(places))
            for node, weight in places.items():
                best[node] = max(best.get(node, 0.0), weight * rare * alike**2)
        for node, score in best.items():
            scores[node] += score
            missed[node] -= 1
    hits = [
        Hit(
            get_node_kind(node),
            _get_entry_id(node),
            search_index.titles[node],
            round(score * _KIND_WEIGHTS[get_node_kind(node)] / 2 ** missed[node], 2),
        )
        for node, score in scores.items()
        if kind in (None, get_node_kind(node))
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:max_count]


def extract_words(text: str) -> list[str]:
    """Return the telling words of a text; names joined by hyphens or underscores are split.

    A word that begins with un or non counts without it as well.
    """
    parts = [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]
    bare = [re.sub(r"^(?:un|non)(?=[a-z]{5})", "", word) for word in parts]
    return list(dict.fromkeys([*parts, *bare]))


def get_node_kind(node: str) -> str:
    """Return the kind of a node of the graph."""
    return node.partition(":")[0]


def _iter_query_words(search_index: SearchIndex, query: str) -> Iterator[str]:
    """Yield the words of a query; one that is unknown but two known ones in a row counts as two."""
    for word in extract_words(query):
        cuts = range(3, len(word) - 2) if word not in search_index.stems else ()
        pairs = ((word[:cut], word[cut:]) for cut in cuts)
        yield from next((p for p in pairs if set(p) <= search_index.stems.keys()), (word,))


def _iter_similar_stems(search_index: SearchIndex, word: str) -> Iterator[tuple[str, float]]:
    """Yield the stems that a word may mean, and how alike they are."""
    if _stem(word) in search_index.weights:
        yield _stem(word), 1.0
        return
    if len(word) >= 4:
        begun = {stem for other, stem in search_index.stems.items() if other.startswith(word)}
        yield from ((stem, 0.9) for stem in begun)
    scorer = OSA.normalized_similarity  # two letters that changed places are one mistake
    for other, alike, _ in process.extract(
        word, list(search_index.stems), scorer=scorer, score_cutoff=_MIN_SIMILARITY
    ):
        yield search_index.stems[other], alike


@cache
def _stem(word: str) -> str:
    return str(_STEMMER.stemWord(word))


def _iter_texts(node: str, record: BaseModel) -> Iterator[tuple[str, str]]:
    yield "id", _get_entry_id(node)
    yield "title", _get_entry_title(record)
    for field in type(record).model_fields:
        if field not in _UNINDEXED_FIELDS:
            for text in _iter_strings(getattr(record, field)):
                yield "words", text


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (*_iter_strings(key), *_iter_strings(inner))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _iter_strings(inner)


def _get_entry_id(node: str) -> str:
    return node.partition(":")[2]


def _get_entry_title(record: BaseModel) -> str:
    for field in ("title", "do", "check", "because", "why"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""
