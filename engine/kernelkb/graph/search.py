"""Finds the entries that a question is about, in an index of the words of every entry.

SQLite's FTS5 stems the words and weighs each by BM25; misspelt words are corrected first. An entry
must hold a minimum share of what a question is about, or nothing fits. How much of one of its names
the question holds then decides among those that do.

This imports neither networkx nor pydantic: a search that finds its index in a file needs neither.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise, takewhile
from typing import NamedTuple

from kernelkb.graph.search_index import (
    GENERAL_SHARE,
    RAW_NAME,
    STOP_WORDS,
    SearchIndex,
    split_camel_case,
    split_words,
    strip_negation,
)

CODE_NAME = re.compile(
    r"\b(?:cuda|cu|cublas|cudnn|nccl|nvml|cub::)[A-Z_]\w*|\bNCCL_\w+|\b__\w+|\b(?:tl|torch|triton|cute)\.\w"
)
"""A name that only code of this field holds."""

_RAW_SCORE = 1000.0
"""Score of an entry for the exact name of its counter: above every sum of words."""
_MIN_COMMON_SHARE = 0.7
"""Least share of the words of a name with which a known one must begin."""

_COLUMN_WEIGHTS = (5.0, 4.0, 1.5, 1.0)
"""Weights of a word in the id, the title, the other names and the text (judgement, tuned)."""
_KIND_WEIGHTS = {
    "bottleneck": 1.4,
    "symptom": 1.2,
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
_WINDOW = 4
"""Neighbouring words of a long question that are looked for by themselves (tuned)."""
_WINDOW_SHARE = 0.6
"""Share of the score of the best such part that counts beside that of the whole (tuned)."""
_NAMED_FACTOR = 1.5
"""Factor on the score of an entry whose id a question spells out."""
_PHRASE_SHARE = 0.5
"""Share of the score of two neighbouring words together that counts beside those of each."""
_TEXT_SHARE = 0.6
"""Share of a word that counts as held by an entry whose text alone holds it (tuned)."""
_MIN_SIMILARITY = 0.83
"""Least share of letters that a misspelt word has in common with the one that is meant."""
_MAX_SIMILAR = 5
_DEMANDS = {"no sign": (7.0, 0.56), "phrase": (4.0, 0.40), "field word": (1.2, 0.26)}
"""By what tells that a question is of this field: the weight of an unknown word in its subject, in
the unit of ``_Term.weight``, and the least share of the subject that an entry must hold (tuned). A
phrase is one that an entry's names hold."""
_FIELD_MAX_SUBJECT = 14.0
"""A long question of this field need not be covered beyond this weight."""
_OUTSIDE_WEIGHT = 12.0
"""Weight of a word of another field: more than two words of this one."""
_NAME_BASE = 0.15
"""What an entry keeps of its score where the question holds none of its names (tuned)."""
_UNKNOWN_IDF = 0.25
"""Weight of a word of the question that no name holds, as a share of that of the rarest one."""
_UNNAMED_SHARE = 0.4
"""The same for a word that no entry's names hold: mostly one of everyday language."""
_OTHER_SHARE = 0.5
"""Factor on the score of a symptom for a question about speed, of a fix for one about a failure,
and of an entry of a product that the question does not name."""
_NUMBER_SHARE = 0.35
"""The same for a number below 1000: mostly a size or a share, seldom a subject."""
_DEVICE_SHARE = 0.5
"""The same for the name of a GPU in a question of more than ``_DEVICE_WORDS`` words: most such
questions are about something that happens there, not about its data."""
_DEVICE_WORDS = 6
_MAX_NAMED = 12
"""Most entries that a word of a GPU's title, such as its kind of memory, may name."""
_SPREAD_COUNT = 3
"""Hits that together are to hold what a question is about: people read no more."""
_SPREAD_DEPTH = 12
_SPREAD_LOSS = 0.6
"""Share of its score that a further one of these loses for words that those before it hold."""
_PERCENT = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d+)?) ?(?:%|percent\b)")
_PART, _FULL = 60.0, 75.0
"""Per cent of a resource up to which it is used in part, and from which it is used in full."""
_USUAL_SCORE = 3.0
"""Added to the score of the likeliest cause of what a question says: much where its words tell
little, and nothing beside the score of an entry that its words name (tuned)."""
_USUAL_LOSS = 0.15
"""Share of that which each further cause has less."""
_FIRM_SHARE = 0.95
"""Least share of the best score for the likeliest of causes that are firm (tuned)."""
_TITLE_SHARE = 0.5
"""Share of the score of the first sentence alone that counts beside that of the whole (tuned)."""
_OPPOSITE_SHARE = 0.2
"""Factor on the score of an entry that says the opposite of the question."""
_TAGS = re.compile(r"^\s*(?:\[[^\[\]\n]{1,20}\]\s*)+(?=\S)")
"""Tags in front of a thread's title, such as ``[Question][cutlass]``."""


_TITLE = re.compile(r"[^\n]{8,80}?[.?!](?=\s+\S+\s+\S+\s+\S)")
"""The first sentence of a question that goes on: mostly the title of a thread."""
_CALL = re.compile(r"\w\(\)")


class Hit(NamedTuple):
    """One entry that answers a question."""

    kind: str
    id: str
    title: str
    score: float


class _Term(NamedTuple):
    """One word of a question."""

    word: str
    weight: float = 0.0
    """How much it says: the logarithm of how few entries hold it."""
    share: float = 1.0
    """How much of that counts in a question of this field."""
    scores: Mapping[int, float] = {}
    """By position of a document that holds it; empty for an unknown word."""
    names: frozenset[int] = frozenset()
    """Positions of the documents that hold it in id, title or other names."""
    is_field: bool = False
    """Whether only questions of this field hold it."""
    is_outside: bool = False
    """Whether it is a word of another field."""
    is_device: bool = False
    """Whether it names one or few GPUs."""

    def weigh(self, position: int) -> float:
        """Return how much of what the word says a document holds, in the unit of ``weight``."""
        if position in self.names:
            return self.weight
        return self.weight * _TEXT_SHARE if position in self.scores else 0.0


def search(
    index: SearchIndex,
    query: str,
    *,
    kind: str | None = None,
    max_count: int = 10,
    field_only: bool = False,
) -> list[Hit]:
    """Return the entries that answer a question, the best first; none if nothing fits.

    Args:
        index: The words of every entry.
        query: A question, ids, words of a message, or names of Nsight Compute's counters.
        kind: Return only entries of this kind; None: of all kinds.
        max_count: Maximum number of hits.
        field_only: Return none for what holds no word of this field.
    """
    raw_scores, text = score_counters(index, _TAGS.sub(partial(_keep_named, index), query))
    terms = _find_terms(index, text)
    is_field = bool(CODE_NAME.search(text)) or any(term.is_field for term in terms)
    if field_only and not is_field:
        return []
    is_ours = is_field and not any(term.is_outside for term in terms)
    scores = _score_text(index, terms, is_field=is_field, has_windows=is_ours)
    if is_ours:
        _add_title(index, text, scores)
    firm = _add_usual_causes(index, text, scores)
    for position in _find_opposite(index, query) & scores.keys():
        scores[position] *= _OPPOSITE_SHARE
    scores |= {p: max(scores.get(p, 0.0), score) for p, score in raw_scores.items()}
    documents = index.documents
    found = sorted(
        (p for p in scores if kind in (None, documents[p].kind)),
        key=lambda p: (-round(scores[p], 2), documents[p].id),
    )
    hits = ((documents[p], scores[p]) for p in _spread(terms, scores, found, firm)[:max_count])
    return [Hit(each.kind, each.id, each.title, round(score, 2)) for each, score in hits]


def _add_title(index: SearchIndex, text: str, scores: dict[int, float]) -> None:
    """Count the first sentence of a question alone, too, where it names code."""
    title = _TITLE.match(text)
    if title and (CODE_NAME.search(title[0]) or _CALL.search(title[0])):
        alone = _score_text(index, _find_terms(index, title[0]), is_field=True, has_windows=True)
        for position, score in alone.items():
            scores[position] = scores.get(position, 0.0) + _TITLE_SHARE * score


def _find_terms(index: SearchIndex, text: str) -> list[_Term]:
    return _dim_devices([_find_term(index, word) for word in _iter_subject_words(index, text)])


def _score_text(
    index: SearchIndex, terms: list[_Term], *, is_field: bool, has_windows: bool
) -> dict[int, float]:
    """Return the scores of documents by the words of a text and the names that it holds."""
    scores = _score_words(index, terms, is_field=is_field)
    if has_windows:
        _add_windows(index, terms, scores)
    named = _score_names(index, terms)
    return {p: score * (_NAME_BASE + named.get(p, 0.0)) for p, score in scores.items()}


def _dim_devices(terms: list[_Term]) -> list[_Term]:
    """Return the words of a question; in a long one the names of GPUs count less."""
    if len(terms) <= _DEVICE_WORDS:
        return terms
    return [t._replace(share=t.share * _DEVICE_SHARE) if t.is_device else t for t in terms]


def _spread(
    terms: list[_Term], scores: Mapping[int, float], found: list[int], firm: set[int]
) -> list[int]:
    """Return sorted positions; behind the first those earlier that hold what it does not.

    What is firm loses nothing for words that those before it hold.
    """
    first, rest = found[:1], found[1:]
    seen: set[str] = set()
    while rest and len(first) < _SPREAD_COUNT:
        seen |= {term.word for term in terms if first[-1] in term.names}
        near = rest[:_SPREAD_DEPTH]
        kept = {p: scores[p] if p in firm else _score_new(terms, scores, seen, p) for p in near}
        first.append(max(near, key=kept.__getitem__))
        rest.remove(first[-1])
    return first + rest


def _score_new(
    terms: list[_Term], scores: Mapping[int, float], seen: set[str], position: int
) -> float:
    """Return the score of a document, less for words of its names that others hold already."""
    held = {t.word: t.weight * t.share for t in terms if position in t.names}
    again = sum(weight for word, weight in held.items() if word in seen)
    return scores[position] * (1 - _SPREAD_LOSS * again / (sum(held.values()) or 1.0))


def _score_names(index: SearchIndex, terms: Iterable[_Term]) -> dict[int, float]:
    """Return how alike a question and the name of a document are that is most like it, 0 to 1.

    Words of several names of one document count for nothing together.
    """
    count = len(index.documents)
    held: dict[int, float] = defaultdict(float)
    asked = 0.0
    for term in terms:
        names = index.find_names(term.word)
        known = len({index.names[name][0] for name in names})
        share = term.share if names else _UNKNOWN_IDF
        weight = share * math.log(1 + count / (1 + known))
        asked += weight
        for name in names:
            held[name] += weight
    best: dict[int, float] = defaultdict(float)
    for name, weight in held.items():
        position, norm = index.names[name]
        best[position] = max(best[position], min(1.0, weight / math.sqrt(norm * asked)))
    return best


def _add_windows(index: SearchIndex, terms: list[_Term], scores: dict[int, float]) -> None:
    """Raise the scores of documents that a part of a long question is about.

    A title tells much besides: the model, the project, what was tried.
    """
    known = [term for term in terms if term.scores and term.share > GENERAL_SHARE]
    if len(known) <= _WINDOW:
        return
    best: dict[int, float] = {}
    for start in range(len(known) - _WINDOW + 1):
        part = _score_words(index, known[start : start + _WINDOW], is_field=True)
        for position, score in part.items():
            best[position] = max(best.get(position, 0.0), score)
    for position, score in best.items():
        scores[position] = scores.get(position, 0.0) + _WINDOW_SHARE * score


def _add_usual_causes(index: SearchIndex, text: str, scores: dict[int, float]) -> set[int]:
    """Raise the scores of the usual causes of what a question complains of; return the firm ones.

    Of wrong results, which are symptoms, no advice for speed and no GPU is the cause.
    """
    held = _find_lists(index, split_words(text))
    best: dict[int, float] = {}
    firm: dict[int, float] = {}
    rows = index.database.execute("SELECT * FROM usual_cause")
    for said, unsaid, is_firm, position, place in rows:
        if held.issuperset(said.split()) and held.isdisjoint(unsaid.split()):
            share = 1 - _USUAL_LOSS * place
            best[position] = max(best.get(position, 0.0), _USUAL_SCORE * share)
            if is_firm:
                firm[position] = max(firm.get(position, 0.0), _FIRM_SHARE * share)
    if {index.documents[position].kind for position in best} == {"symptom"}:
        for position in scores:
            if index.documents[position].kind != "symptom":
                scores[position] *= _OTHER_SHARE
    for position, score in best.items():
        scores[position] = scores.get(position, 0.0) + score
    highest = max(scores.values(), default=0.0)
    for position, share in firm.items():
        scores[position] = max(scores[position], share * highest)
    return set(firm)


def _score_words(index: SearchIndex, terms: list[_Term], *, is_field: bool) -> dict[int, float]:
    """Return the score of each document that holds enough of what the words are about."""
    words = [term.word for term in terms]
    if _lacks_subject(terms) and not (is_field and "speed" in _find_lists(index, words)):
        return {}
    phrases = _score_phrases(index, words)
    sign = "field word" if is_field else "phrase" if phrases else "no sign"
    terms = [_weigh_term(term, sign) for term in terms]
    subject = sum(term.weight for term in terms)
    capped = is_field and not any(term.is_outside for term in terms)
    least = _DEMANDS[sign][1] * (min(subject, _FIELD_MAX_SUBJECT) if capped else subject)
    kinds, foreign = _weigh_kinds(index, words), _find_foreign(index, words)
    scores = {}
    for position in {p for term in terms for p in term.scores}:
        held = sum(term.weigh(position) for term in terms)
        if held >= least:
            total = sum(term.scores.get(position, 0.0) * term.share for term in terms)
            total += phrases.get(position, 0.0)
            document = index.documents[position]
            named = set(split_words(document.id)) - STOP_WORDS <= set(words)
            factor = kinds[document.kind] * (_NAMED_FACTOR if named else 1.0)
            factor *= _OTHER_SHARE if position in foreign else 1.0
            scores[position] = total * factor * (held / subject) ** 2
    return scores


def _lacks_subject(terms: Iterable[_Term]) -> bool:
    """Whether a word that no entry holds is the subject, as all others say little.

    In a question about the speed of a program they may be all that is asked.
    """
    known = [term for term in terms if term.scores]
    unknown = any(not term.scores and term.word.isalpha() for term in terms)
    return unknown and all(term.share < 1.0 for term in known)


def _weigh_term(term: _Term, sign: str) -> _Term:
    """Return a word with its weight in a question of which something tells the field, or not."""
    if term.is_outside:
        return term._replace(weight=_OUTSIDE_WEIGHT)
    if not term.scores:
        unknown = _DEMANDS[sign][0]
        return term._replace(weight=unknown * (0.2 if term.word[0].isdigit() else 1.0))
    # An everyday word is no subject in this field, and may be all the subject of another one.
    return term if sign == "no sign" else term._replace(weight=term.weight * term.share)


def _weigh_kinds(index: SearchIndex, words: list[str]) -> dict[str, float]:
    """Return the factor of each kind: of speed alone no failure, of one no change or device."""
    asked = _find_lists(index, words) & {"speed", "failure"}
    kinds = {"speed": ("symptom",), "failure": ("fix", "bottleneck", "architecture")}
    lower = (*kinds[asked.pop()], "device") if len(asked) == 1 else ()
    return {
        kind: weight * (_OTHER_SHARE if kind in lower else 1.0)
        for kind, weight in _KIND_WEIGHTS.items()
    }


def _find_foreign(index: SearchIndex, words: list[str]) -> set[int]:
    """Return the entries whose titles name products, but none that the words name."""
    rows = index.database.execute("SELECT words FROM word_list WHERE name = 'product'").fetchall()
    products = {product for (text,) in rows for product in text.replace(";", " ").split()}
    found: list[set[int]] = []
    for names in (products - set(words), products & set(words)):
        either = " OR ".join(f'"{name}"' for name in sorted(names))
        found.append({p for p, _ in _match(index, f"{{id title}}: ({either})")} if names else set())
    return found[0] - found[1]


def _find_opposite(index: SearchIndex, query: str) -> set[int]:
    """Return the bottlenecks of a resource used in full, if a question says one is used in part."""
    lists = _find_lists(index, split_words(query))
    shares = [float(share) for share in _PERCENT.findall(query)]
    in_part = "part" in lists or any(share < _PART for share in shares)
    in_full = "full" in lists or any(share >= _FULL for share in shares)
    if "resource" not in lists or not in_part or in_full:
        return set()
    rows = index.database.execute("SELECT words FROM word_list WHERE name = 'full'").fetchall()
    either = " OR ".join(f'"{word}"' for (text,) in rows for word in text.replace(";", " ").split())
    found = _match(index, f"{{title}}: ({either})") if either else ()
    return {p for p, _ in found if index.documents[p].kind == "bottleneck"}


def _iter_subject_words(index: SearchIndex, text: str) -> Iterator[str]:
    """Yield the distinct words of a question that say what it is about."""
    seen = set(STOP_WORDS)
    for chunk in text.split():
        words = split_words(chunk)
        if any(word not in index.vocabulary for word in words):
            parts = split_camel_case(chunk)
            if set(parts) & index.vocabulary:
                words = [part for part in parts if _find_named_documents(index, [part])]
        for word in words:
            for part in _split_compound(index, word):
                if part not in seen and (len(part) > 1 or part.isdigit()):
                    seen.add(part)
                    yield part


def _keep_named(index: SearchIndex, tags: re.Match[str]) -> str:
    """Return the words of tags that entries are named by, and few are."""
    said = (word for word in split_words(tags[0]) if word not in STOP_WORDS)
    words = (word for word in said if "failure" not in _find_lists(index, [word]))
    terms = (_find_term(index, word) for word in words if word in index.vocabulary)
    return " ".join([*(one.word for one in terms if one.names and one.share == 1.0), ""])


def _split_compound(index: SearchIndex, word: str) -> tuple[str, ...]:
    """Return an unknown word that is made of two known ones as these."""
    known = index.vocabulary
    if word in known or _find_lists(index, [word]):
        return (word,)
    pairs = ((word[:cut], word[cut:]) for cut in range(3, len(word) - 2))
    return next((pair for pair in pairs if set(pair) <= known), (word,))


def _find_term(index: SearchIndex, word: str) -> _Term:
    """Return a word's score in every document, also by spellings close to an unknown word."""
    lists = _find_lists(index, [word])
    if "outside" in lists:
        return _Term(word, is_outside=True)
    spellings = {word: 1.0}
    bare = strip_negation(word)
    if bare != word:
        spellings[bare] = 0.8
    scores = _match_spellings(index, spellings)
    if not scores and len(word) > 4 and word.isalpha():
        spellings = dict(_iter_similar_words(index, word))
        scores = _match_spellings(index, spellings)
        lists = _find_lists(index, spellings)
    if not scores:
        return _Term(word, is_field="field" in lists)
    names = _find_named_documents(index, spellings)
    share = GENERAL_SHARE if "general" in lists else 1.0
    if word.isdigit() and len(word) < 4:
        share = _NUMBER_SHARE
    elif not names:
        share *= _UNNAMED_SHARE
    weight = math.log(1 + len(index.documents) / len(scores))
    is_gpu = _names_gpu(index, word, names)
    is_device = is_gpu and any(index.documents[p].kind == "device" for p in names)
    is_field = is_gpu or "field" in lists
    return _Term(word, weight, share, scores, names, is_field, is_device=is_device)


def _names_gpu(index: SearchIndex, word: str, names: frozenset[int]) -> bool:
    """Whether a word such as 4090, a100 or sm90 names one or few GPUs."""
    if not any(letter.isdigit() for letter in word) or len(word) < 2:
        return False
    kinds = {index.documents[p].kind for p in names}
    if len(names) <= _MAX_NAMED:
        return not kinds.isdisjoint(("device", "architecture"))
    # Many entries speak of a well-known GPU; a memory size in its id is no name.
    ids = (index.documents[p].id for p in names if index.documents[p].kind == "device")
    return len(word) > 2 and any(word in split_words(device) for device in ids)


def _find_lists(index: SearchIndex, words: Iterable[str]) -> set[str]:
    """Return the names of the lists that hold one of the words, in any form."""
    either = " OR ".join(f'"{word}"' for word in words)
    if not either:
        return set()
    rows = index.database.execute("SELECT name FROM word_list WHERE words MATCH ?", (either,))
    return {name for (name,) in rows}


def _score_phrases(index: SearchIndex, words: list[str]) -> dict[int, float]:
    """Return the score of each document whose names hold two neighbouring words as such."""
    found: dict[int, float] = defaultdict(float)
    for first, second in pairwise(words):
        for position, score in _match(index, f'{{id title also}}: "{first} {second}"'):
            found[position] += score * _PHRASE_SHARE
    return found


def _match_spellings(index: SearchIndex, spellings: Mapping[str, float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for spelling, factor in spellings.items():
        for position, score in _match(index, f'"{spelling}"'):
            found[position] = max(found.get(position, 0.0), score * factor)
    return found


def _match(index: SearchIndex, expression: str) -> Iterator[tuple[int, float]]:
    """Yield (position, BM25 score) of the documents that an expression of FTS5 finds."""
    rows = index.database.execute(
        "SELECT rowid, bm25(entry, ?, ?, ?, ?) FROM entry WHERE entry MATCH ?",
        (*_COLUMN_WEIGHTS, expression),
    )
    for rowid, negative_score in rows:
        yield rowid - 1, -negative_score


def _find_named_documents(index: SearchIndex, spellings: Iterable[str]) -> frozenset[int]:
    words = " OR ".join(f'"{spelling}"' for spelling in spellings)
    if not words:
        return frozenset()
    found = index.database.execute(
        "SELECT rowid FROM entry WHERE entry MATCH ?", (f"{{id title also}}: ({words})",)
    )
    return frozenset(rowid - 1 for (rowid,) in found)


def _iter_similar_words(index: SearchIndex, word: str) -> Iterator[tuple[str, float]]:
    """Yield the known words that a misspelt one may mean, and a factor below 1 on their scores."""
    for known in difflib.get_close_matches(word, index.vocabulary, _MAX_SIMILAR, _MIN_SIMILARITY):
        yield known, difflib.SequenceMatcher(None, word, known).ratio() ** 2


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
