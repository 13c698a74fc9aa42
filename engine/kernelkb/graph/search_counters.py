"""Finds the entries that are about a counter of Nsight Compute, by its name or a part of it."""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile

from kernelkb.graph.search_index import SearchIndex
from kernelkb.graph.words import RAW_NAME

_RAW_SCORE = 1000.0
"""Score of an entry for the exact name of its counter: above every sum of words."""
_MIN_COMMON_SHARE = 0.7
"""Least share of the words of a name with which a known one must begin."""


def score_counters(index: SearchIndex, query: str) -> tuple[dict[int, float], str]:
    """Return the score of each document by the counters of a query, and the query without them.

    A name that no entry has stays in the query, so that its words may find something.
    """
    scores: dict[int, float] = defaultdict(float)
    rest = query
    names = {word.strip(",;:?()") for word in query.split()}
    for name in sorted({*names, *(match[0] for match in RAW_NAME.finditer(query))}):
        found = _match_raw_name(index, name.lower().rstrip("._"))
        for position, score in found.items():
            scores[position] = max(scores[position], score)
        if found:
            rest = rest.replace(name, " ")
    return scores, rest


def _match_raw_name(index: SearchIndex, name: str) -> dict[int, float]:
    """Return the score of each document for a counter: exact, then by how far the names agree."""
    scores: dict[int, float] = defaultdict(float)
    base = name.partition(".")[0]
    for known, found in index.raw_names.items():
        likeness = 1.0 if known == name else _compare_bases(base, known.partition(".")[0])
        for position, share in found if likeness else ():
            scores[position] = max(scores[position], _RAW_SCORE * likeness * share)
    return scores


def _compare_bases(base: str, known: str) -> float:
    """Return how much a name without suffixes agrees with one that is known, 0 to 0.5."""
    if "__" not in base:
        return 0.0
    if known == base:
        return 0.5
    if known.startswith(base):
        return 0.25
    words, known_words = base.split("_"), known.split("_")
    pairs = zip(words, known_words, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    share = common / len(words)
    return share / 8 if share >= _MIN_COMMON_SHARE else 0.0
