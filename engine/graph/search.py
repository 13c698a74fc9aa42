"""Finds and ranks the knowledge entries that answer a question, however it is typed.

SQLite's FTS5 stems the words and weighs each by BM25; misspelt words are corrected first. An entry
must hold a minimum share of what a question is about, or nothing fits.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from kernelkb.graph.search_documents import RAW_NAME, Document
from kernelkb.graph.words import STOP_WORDS, split_camel_case, split_words, strip_negation

_COLUMN_WEIGHTS = (5.0, 4.0, 4.0, 1.0)
"""Weights of a word in the id, the title, the other names and the text (judgement, tuned)."""

_KIND_WEIGHTS = {
    "bottleneck": 1.4,
    "symptom": 1.3,
    "fix": 1.2,
    "device": 1.1,
    "architecture": 1.0,
    "command": 1.2,
    "pattern": 1.0,
    "tree": 0.8,
    "guard": 0.7,
    "workflow": 0.7,
    "metric": 0.75,
    "threshold": 0.4,
}
"""Factor on the score of an entry, by kind: causes and cures before limits (judgement, tuned)."""

SEARCH_KINDS = tuple(_KIND_WEIGHTS)

_NAMED_FACTOR = 1.5
"""Factor on the score of an entry whose id a question spells out."""
_TEXT_SHARE = 0.7
"""Share of a word that counts as held by an entry whose text alone holds it (tuned)."""
_MIN_SIMILARITY = 0.82
"""Least share of letters that a misspelt word has in common with the one that is meant."""
_UNKNOWN_WEIGHT = 5.0
"""Weight of an unknown word in the subject of a question, in the unit of ``_Term.weight``."""
_MIN_COVERAGE = 0.40
"""Least share of a question's subject that its best entry holds (tuned)."""
_RAW_SCORE = 1000.0
"""Score of an entry for the exact name of its counter: above every sum of words."""


class Hit(NamedTuple):
    """One entry that answers a question."""

    kind: str
    id: str
    title: str
    score: float


class SearchIndex(NamedTuple):
    """The words of every entry, in a database in memory."""

    documents: tuple[Document, ...]
    database: sqlite3.Connection
    """One row for each document; its rowid is the position plus 1."""
    vocabulary: frozenset[str]
    raw_names: Mapping[str, tuple[int, ...]]
    """Positions of the documents by name of a counter, without its suffixes."""


class _Term(NamedTuple):
    """One word of a question."""

    weight: float
    """How much it says: the logarithm of how few entries hold it."""
    scores: Mapping[int, float]
    """By position of a document that holds it."""
    names: frozenset[int]
    """Positions of the documents that hold it in id, title or other names."""

    def weigh(self, position: int) -> float:
        """Return how much of what the word says a document holds, in the unit of ``weight``."""
        if position in self.names:
            return self.weight
        return self.weight * _TEXT_SHARE if position in self.scores else 0.0


def build_search_index(documents: Iterable[Document]) -> SearchIndex:
    """Return the index of some documents; about 20 ms for a thousand."""
    kept = tuple(documents)
    # Any thread of a server may read it; nothing writes after this function.
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute(
        "CREATE VIRTUAL TABLE entry USING fts5(id, title, also, body, tokenize='porter ascii')"
    )
    rows = [
        tuple(" ".join(_add_bare_forms(split_words(text))) for text in document.get_texts())
        for document in kept
    ]
    database.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
    raw: dict[str, list[int]] = defaultdict(list)
    for position, document in enumerate(kept):
        for name in document.raw_names:
            raw[name.lower()].append(position)
    vocabulary = frozenset(word for row in rows for text in row for word in text.split())
    return SearchIndex(kept, database, vocabulary, {k: tuple(v) for k, v in raw.items()})


def search(
    index: SearchIndex, query: str, *, kind: str | None = None, max_count: int = 10
) -> list[Hit]:
    """Return the entries that answer a question, the best first; none if nothing fits.

    Args:
        index: The words of every entry.
        query: A question, ids, words of a message, or names of Nsight Compute's counters.
        kind: Return only entries of this kind; None: of all kinds.
        max_count: Maximum number of hits.
    """
    scores: dict[int, float] = defaultdict(float)
    words = list(_iter_subject_words(index, query))
    terms = [_find_term(index, word) for word in words]
    subject = sum(term.weight for term in terms)
    for position in {p for term in terms for p in term.scores}:
        held = sum(term.weigh(position) for term in terms)
        if held >= _MIN_COVERAGE * subject:
            total = sum(term.scores.get(position, 0.0) for term in terms)
            document = index.documents[position]
            factor = _KIND_WEIGHTS[document.kind] * (held / subject) ** 2
            named = set(split_words(document.id)) - STOP_WORDS <= set(words)
            scores[position] = total * factor * (_NAMED_FACTOR if named else 1.0)
    for position, score in _find_raw_names(index, query):
        scores[position] = max(scores[position], score)
    hits = [
        Hit(document.kind, document.id, document.title, round(score, 2))
        for document, score in ((index.documents[p], s) for p, s in scores.items())
        if kind in (None, document.kind)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:max_count]


def _add_bare_forms(words: list[str]) -> Iterator[str]:
    """Yield words; one that begins with un- or non- also without it."""
    for word in words:
        yield word
        bare = strip_negation(word)
        if bare != word:
            yield bare


def _iter_subject_words(index: SearchIndex, query: str) -> Iterator[str]:
    """Yield the distinct words of a question that say what it is about."""
    text = RAW_NAME.sub(" ", query)
    seen = set(STOP_WORDS)
    for chunk in text.split():
        words = split_words(chunk)
        if any(word not in index.vocabulary for word in words):
            parts = split_camel_case(chunk)
            words = parts if set(parts) & index.vocabulary else words
        for word in words:
            for part in _split_compound(index, word):
                if part not in seen and (len(part) > 1 or part.isdigit()):
                    seen.add(part)
                    yield part


def _split_compound(index: SearchIndex, word: str) -> tuple[str, ...]:
    """Return an unknown word that is made of two known ones as these."""
    known = index.vocabulary
    if word in known:
        return (word,)
    pairs = ((word[:cut], word[cut:]) for cut in range(3, len(word) - 2))
    return next((pair for pair in pairs if set(pair) <= known), (word,))


def _find_term(index: SearchIndex, word: str) -> _Term:
    """Return a word's score in every document, also by spellings close to an unknown word."""
    spellings = {word: 1.0}
    bare = strip_negation(word)
    if bare != word:
        spellings[bare] = 0.8
    scores = _match_spellings(index, spellings)
    if not scores and len(word) > 3 and word.isalpha():
        spellings = dict(_iter_similar_words(index, word))
        scores = _match_spellings(index, spellings)
    if not scores:
        return _Term(_UNKNOWN_WEIGHT * (0.2 if word[0].isdigit() else 1.0), {}, frozenset())
    weight = math.log(1 + len(index.documents) / len(scores))
    return _Term(weight, scores, _find_named_documents(index, spellings))


def _match_spellings(index: SearchIndex, spellings: Mapping[str, float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for spelling, factor in spellings.items():
        rows = index.database.execute(
            "SELECT rowid, bm25(entry, ?, ?, ?, ?) FROM entry WHERE entry MATCH ?",
            (*_COLUMN_WEIGHTS, f'"{spelling}"'),
        )
        for rowid, negative_score in rows:
            score = -negative_score * factor
            found[rowid - 1] = max(found.get(rowid - 1, 0.0), score)
    return found


def _find_named_documents(index: SearchIndex, spellings: Iterable[str]) -> frozenset[int]:
    words = " OR ".join(f'"{spelling}"' for spelling in spellings)
    found = index.database.execute(
        "SELECT rowid FROM entry WHERE entry MATCH ?", (f"{{id title also}}: ({words})",)
    )
    return frozenset(rowid - 1 for (rowid,) in found)


def _iter_similar_words(index: SearchIndex, word: str) -> Iterator[tuple[str, float]]:
    """Yield the known words that a misspelt one may mean, and a factor below 1 on their scores."""
    for known, similarity, _ in process.extract(
        word,
        index.vocabulary,
        scorer=OSA.normalized_similarity,
        score_cutoff=_MIN_SIMILARITY,
        limit=5,
    ):
        yield known, similarity**2


def _find_raw_names(index: SearchIndex, query: str) -> Iterator[tuple[int, float]]:
    """Yield (document, score) for every name of a counter: exact, then of the same base name."""
    words = {word.strip(",;:?()").lower() for word in query.split()}
    yield from (
        (position, _RAW_SCORE) for name in words for position in index.raw_names.get(name, ())
    )
    for match in RAW_NAME.finditer(query):
        name = match[0].lower().rstrip("._")
        base = name.partition(".")[0]
        for known, positions in index.raw_names.items():
            known_base = known.partition(".")[0]
            if known == name:
                score = _RAW_SCORE
            elif known_base == base:
                score = _RAW_SCORE / 2
            elif known_base.startswith(base):
                score = _RAW_SCORE / 4
            elif base.startswith(f"{known_base}_"):
                score = _RAW_SCORE / 8
            else:
                continue
            yield from ((position, score) for position in positions)
