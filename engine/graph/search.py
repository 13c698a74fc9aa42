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

_WEIGHTS = {"id": 4.0, "title": 3.0, "words": 1.0}
"""Of a word, by where it stands."""

_KINDS = {
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
_ID_LIKE = frozenset({"sources", "unless", "evidence", "group", "target", "targets", "level"})
"""Fields whose words say nothing about an entry."""

_ALIKE = 0.75
"""From which share of equal letters on a word counts as a misspelling of another (judgement)."""

_COMMON = frozenset(
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


class Index(NamedTuple):
    """Which words stand where, and how telling each is."""

    weights: Mapping[str, Mapping[str, float]]
    """Stem to node to the weight of its best place."""
    titles: Mapping[str, str]
    stems: Mapping[str, str]
    """Word as it is written to its stem."""


def index(graph: Graph) -> Index:
    """Return the words of every entry of a graph."""
    weights: dict[str, dict[str, float]] = defaultdict(dict)
    titles: dict[str, str] = {}
    stems: dict[str, str] = {}
    for node, data in graph.nodes(data=True):
        record = data.get("record")
        if data["kind"] not in _KINDS or record is None:
            continue
        titles[node] = _title(record)
        for place, text in _texts(node, record):
            for word in words(text):
                stem = stems.setdefault(word, _stem(word))
                weights[stem][node] = max(weights[stem].get(node, 0.0), _WEIGHTS[place])
    return Index(weights, titles, stems)


def search(found_in: Index, query: str, *, kind: str | None = None, most: int = 10) -> list[Hit]:
    """Return the entries that fit a query, the best first.

    Every word of the query adds the weight of its best place in an entry, times how rare the word
    is, times how alike it is spelt. An entry that misses words of the query counts less.

    Args:
        found_in: The index.
        query: Ids, words of a symptom, raw metric names; misspelt ones are guessed.
        kind: Only entries of this kind.
        most: How many at most.
    """
    asked = list(_asked(found_in, query))
    scores: dict[str, float] = defaultdict(float)
    missed: dict[str, int] = defaultdict(lambda: len(asked))
    for word in asked:
        best: dict[str, float] = {}
        for known, alike in _spellings(found_in, word):
            places = found_in.weights[known]
            rare = math.log(1 + len(found_in.titles) / len(places))
            for node, weight in places.items():
                best[node] = max(best.get(node, 0.0), weight * rare * alike**2)
        for node, score in best.items():
            scores[node] += score
            missed[node] -= 1
    hits = [
        Hit(
            kind_of(node),
            _name(node),
            found_in.titles[node],
            round(score * _KINDS[kind_of(node)] / 2 ** missed[node], 2),
        )
        for node, score in scores.items()
        if kind in (None, kind_of(node))
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:most]


def words(text: str) -> list[str]:
    """Return the telling words of a text; names joined by hyphens or underscores are split.

    A word that begins with un or non counts without it as well.
    """
    parts = [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _COMMON]
    bare = [re.sub(r"^(?:un|non)(?=[a-z]{5})", "", word) for word in parts]
    return list(dict.fromkeys([*parts, *bare]))


def kind_of(node: str) -> str:
    """Return the kind of a node of the graph."""
    return node.partition(":")[0]


def _asked(found_in: Index, query: str) -> Iterator[str]:
    """Yield the words of a query; one that is unknown but two known ones in a row counts as two."""
    for word in words(query):
        cuts = range(3, len(word) - 2) if word not in found_in.stems else ()
        pairs = ((word[:cut], word[cut:]) for cut in cuts)
        yield from next((p for p in pairs if set(p) <= found_in.stems.keys()), (word,))


def _spellings(found_in: Index, word: str) -> Iterator[tuple[str, float]]:
    """Yield the stems that a word may mean, and how alike they are."""
    if _stem(word) in found_in.weights:
        yield _stem(word), 1.0
        return
    if len(word) >= 4:
        begun = {stem for other, stem in found_in.stems.items() if other.startswith(word)}
        yield from ((stem, 0.9) for stem in begun)
    scorer = OSA.normalized_similarity  # two letters that changed places are one mistake
    for other, alike, _ in process.extract(
        word, list(found_in.stems), scorer=scorer, score_cutoff=_ALIKE
    ):
        yield found_in.stems[other], alike


@cache
def _stem(word: str) -> str:
    return str(_STEMMER.stemWord(word))


def _texts(node: str, record: BaseModel) -> Iterator[tuple[str, str]]:
    yield "id", _name(node)
    yield "title", _title(record)
    for field in type(record).model_fields:
        if field not in _ID_LIKE:
            for text in _strings(getattr(record, field)):
                yield "words", text


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (*_strings(key), *_strings(inner))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _strings(inner)


def _name(node: str) -> str:
    return node.partition(":")[2]


def _title(record: BaseModel) -> str:
    for field in ("title", "do", "check", "because", "why"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return ""
