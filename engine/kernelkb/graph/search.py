"""Finds the entries that a question is about, in an index of the words of every entry.

SQLite's FTS5 stems the words and weighs each by BM25; misspelt words are corrected first. An entry
must hold a minimum share of what a question is about, or nothing fits.

The index is an SQLite database, which a file can keep between two starts. This imports neither
networkx nor pydantic: a search that finds its index in a file needs neither.
"""

from __future__ import annotations

import difflib
import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise, takewhile
from typing import NamedTuple

_STOP_TEXT = """
a about across actually advantage advice after again all almost already also although always am an
and another any anybody anyone anything app appears approximately are as ask asked assume at
average away bad basically be because been before being believe benefit best better between bit
both but by can cannot cant certain clearly come comes consider considering could currently
definitely despite did do does doesnt doing done dont dramatically during each easily either else
enough entire environment especially essentially etc ever every everything exactly excessive
expected extremely fact fairly feel finding following for from get gets getting give given gives go
going good got greater greatly guess had happen happened happening happens has have having he hello
help her here hes hey hi his how however i idea ideas identical if im important in instead
interesting into intuition investigate is isnt it its itself ive just keep know later latest less
let like little look lot made mainly make makes making many may maybe me mean means mention might
moment more most much must my myself nearly need needed needs never nice no not nothing notice
noticed now observe observed obtain obvious occur occurs of off often ok okay on once one only
opinion or other otherwise our out over particular people perhaps please pleased possible pretty
previous previously proper properly provide provided provides purpose put puts quick quickly quite
rather realize really recently regarding regards related relatively respectively right roughly said
same say says see seem seems seen she shes should show similar simply since situation slight
slightly so some somehow something sometimes soon still strange stuff such suddenly suggest
suggestion suggestions supposed sure surprising surprisingly take takes taking tell than thank
thanks that the their them then there these they theyre thing things this those though through to
today together told tomorrow too took topic toward tried truly try trying understand unexpected
unfortunately unless until up upon us use used uses using usual usually various versus very via vs
want wanted wants was way we weird well went were what whatever when whenever where wherever
whether which while who whole whose why will with without won wonder wondering worse worst worth
would yes yet you your youre
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
"""Words that carry no subject: a question made of them alone fits nothing."""

RAW_NAME = re.compile(r"\b[a-z0-9]+__[a-z0-9_]+(?:\.[a-z0-9_]+|\[\w+\])*", re.IGNORECASE)
"""A name of one of Nsight Compute's counters, with or without its suffixes."""

CODE_NAME = re.compile(
    r"\b(?:cuda|cu|cublas|cudnn|nccl|nvml|cub::)[A-Z_]\w*|\bNCCL_\w+|\b__\w+|\b(?:tl|torch|triton|cute)\.\w"
)
"""A name that only code of this field holds."""

_TOKEN = re.compile(r"\d+\.\d+|[a-z]+[a-z0-9]*|\d+[a-z]*")
_ARCHITECTURE = re.compile(r"\b(?:sm|compute)_?(\d{2,3})[af]?\b")
_UNIT = re.compile(r"(\d+)(?:gb|gib|kb|kib|mb|mib|tb|bit|bytes?|w|us|ms|x)")
_FLAG = re.compile(r"(?<!\S)-([a-z])\b")
_HYPHEN = re.compile(r"\b([a-z]{3,})-([a-z])\b")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BRITISH = re.compile(r"is(e|ed|er|es|ing|ation|ations)$")
_BARE = re.compile(r"^(?:un|non)(?=[a-z]{5})")

_RAW_SCORE = 1000.0
"""Score of an entry for the exact name of its counter: above every sum of words."""
_MIN_COMMON_SHARE = 0.7
"""Least share of the words of a name with which a known one must begin."""

INDEX_SCHEMA = 1
"""Version of the tables and of what they hold; part of the name of a file that keeps them."""
_TABLES = """
CREATE VIRTUAL TABLE entry USING fts5(
    id, title, also, body, content='', tokenize='porter ascii'
);
CREATE VIRTUAL TABLE word_list USING fts5(name UNINDEXED, words, tokenize='porter ascii');
CREATE TABLE document (kind TEXT, id TEXT, title TEXT);
CREATE TABLE vocabulary (word TEXT);
CREATE TABLE counter (name TEXT, position INTEGER, share REAL);
"""
_SENTENCE_KINDS = frozenset(("threshold", "guard", "workflow"))
"""Kinds of entries that have no title: the reason or the action stands for it."""
_COLUMN_WEIGHTS = (5.0, 4.0, 4.0, 1.0)
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
_DEMANDS = {"no sign": (7.0, 0.55), "phrase": (4.0, 0.40), "field word": (1.2, 0.26)}
"""By what tells that a question is of this field: the weight of an unknown word in its subject, in
the unit of ``_Term.weight``, and the least share of the subject that an entry must hold (tuned). A
phrase is one that an entry's names hold."""
_FIELD_MAX_SUBJECT = 14.0
"""A long question of this field need not be covered beyond this weight."""
_OUTSIDE_WEIGHT = 12.0
"""Weight of a word of another field: more than two words of this one."""
_GENERAL_SHARE = 0.25
"""Share of the weight and the score of a word that nearly every question of this field holds."""
_UNNAMED_SHARE = 0.4
"""The same for a word that no entry's names hold: mostly one of everyday language."""
_OTHER_SHARE = 0.5
"""Factor on the score of a symptom for a question about speed, of a fix for one about a failure,
and of an entry of a product that the question does not name."""
_NUMBER_SHARE = 0.35
"""The same for a number below 1000: mostly a size or a share, seldom a subject."""
_TAGS = re.compile(r"^\s*(?:\[[^\[\]\n]{1,20}\]\s*)+(?=\S)")
"""Tags in front of a thread's title, such as ``[Question][cutlass]``."""


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
    words = list(_iter_subject_words(index, text))
    terms = [_find_term(index, word) for word in words]
    is_field = bool(CODE_NAME.search(text)) or any(term.is_field for term in terms)
    if field_only and not is_field:
        return []
    scores = _score_words(index, terms, is_field=is_field)
    if is_field and not any(term.is_outside for term in terms):
        _add_windows(index, terms, scores)
    for position, score in raw_scores.items():
        scores[position] = max(scores.get(position, 0.0), score)
    hits = [
        Hit(document.kind, document.id, document.title, round(score, 2))
        for document, score in ((index.documents[p], s) for p, s in scores.items())
        if kind in (None, document.kind)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:max_count]


def _add_windows(index: SearchIndex, terms: list[_Term], scores: dict[int, float]) -> None:
    """Raise the scores of documents that a part of a long question is about.

    A title tells much besides: the model, the project, what was tried.
    """
    known = [term for term in terms if term.scores and term.share > _GENERAL_SHARE]
    if len(known) <= _WINDOW:
        return
    best: dict[int, float] = {}
    for start in range(len(known) - _WINDOW + 1):
        part = _score_words(index, known[start : start + _WINDOW], is_field=True)
        for position, score in part.items():
            best[position] = max(best.get(position, 0.0), score)
    for position, score in best.items():
        scores[position] = scores.get(position, 0.0) + _WINDOW_SHARE * score


def _score_words(index: SearchIndex, terms: list[_Term], *, is_field: bool) -> dict[int, float]:
    """Return the score of each document that holds enough of what the words are about."""
    words = [term.word for term in terms]
    if _lacks_subject(terms):
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
    """Whether a word that no entry holds is the subject, as all others say little."""
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
    words = (word for word in split_words(tags[0]) if word not in STOP_WORDS)
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
    share = _GENERAL_SHARE if "general" in lists else 1.0
    if word.isdigit() and len(word) < 4:
        share = _NUMBER_SHARE
    elif not names:
        share *= _UNNAMED_SHARE
    weight = math.log(1 + len(index.documents) / len(scores))
    is_field = "field" in lists or _names_device(index, word, names)
    return _Term(word, weight, share, scores, names, is_field)


def _names_device(index: SearchIndex, word: str, names: frozenset[int]) -> bool:
    """Whether a word such as 4090, a100 or sm90 names one or few GPUs."""
    if not any(letter.isdigit() for letter in word) or len(word) < 2 or len(names) > 12:
        return False
    return any(index.documents[p].kind in ("device", "architecture") for p in names)


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


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, stop words included.

    ``sm_90a`` is one word, as are ``8.9``, ``-G`` and ``stream-k``; ``40GB`` is ``40``; -ise is
    written -ize.
    """
    lowered = _ARCHITECTURE.sub(r"sm\1", text.lower().replace("'", ""))
    lowered = _FLAG.sub(r"flag\1", lowered)
    lowered = _HYPHEN.sub(r"\1\2", lowered)
    words = []
    for token in _TOKEN.findall(lowered):
        unit = _UNIT.fullmatch(token)
        plain = unit[1] if unit else token
        words.append(_BRITISH.sub(r"iz\1", plain).replace(".", "d"))
    return words


def split_camel_case(text: str) -> list[str]:
    """Return the words of a name such as ``cuTensorMapEncode``, without its prefix."""
    words = split_words(_CAMEL.sub(" ", text))
    return words[1:] if len(words) > 1 and words[0] in ("cu", "cuda", "nv", "nccl") else words


def strip_negation(word: str) -> str:
    """Return a word without its prefix un- or non-; the word itself if it has none."""
    return _BARE.sub("", word)


class Document(NamedTuple):
    """One entry as the search sees it."""

    kind: str
    id: str
    title: str
    also: str = ""
    """Other names that people use for it."""
    body: str = ""
    raw_names: tuple[str, ...] = ()
    """Names of Nsight Compute's counters that the entry is about."""
    read_names: tuple[str, ...] = ()
    """Names of counters that it reads, among others."""

    def get_texts(self) -> tuple[str, str, str, str]:
        """Return the columns of the index; a title that is a sentence is text, not a name."""
        if self.kind in _SENTENCE_KINDS:
            return self.id, "", self.also, f"{self.title} ; {self.body}"
        return self.id, self.title, self.also, self.body


class SearchIndex(NamedTuple):
    """The words of every entry, in a database in memory."""

    documents: tuple[Document, ...]
    """Kind, id and title of each; the other fields are empty if the index comes from a file."""
    database: sqlite3.Connection
    """One row of ``entry`` for each document; its rowid is the position plus 1."""
    vocabulary: frozenset[str]
    raw_names: Mapping[str, tuple[tuple[int, float], ...]]
    """By name of a counter: positions of documents, and how much each is about it, 0 to 1."""


def build_search_index(
    documents: Iterable[Document], word_lists: Mapping[str, Iterable[str]] | None = None
) -> SearchIndex:
    """Return the index of some documents; about 100 ms for a thousand.

    Args:
        documents: The entries.
        word_lists: Words by what they say about a question; see ``SearchTerms``.
    """
    kept = tuple(documents)
    database = _open_database()
    database.executescript(_TABLES)
    rows = [tuple(_normalise(text) for text in document.get_texts()) for document in kept]
    database.executemany(
        "INSERT INTO entry (rowid, id, title, also, body) VALUES (?, ?, ?, ?, ?)",
        ((rowid, *row) for rowid, row in enumerate(rows, start=1)),
    )
    database.executemany(
        "INSERT INTO word_list VALUES (?, ?)",
        ((name, _normalise(" ; ".join(words))) for name, words in (word_lists or {}).items()),
    )
    database.executemany("INSERT INTO document VALUES (?, ?, ?)", (d[:3] for d in kept))
    words = {word for row in rows for text in row for word in text.split()}
    database.executemany("INSERT INTO vocabulary VALUES (?)", ((word,) for word in sorted(words)))
    database.executemany("INSERT INTO counter VALUES (?, ?, ?)", _iter_counters(kept))
    database.commit()
    return _read_index(database)


def dump_search_index(index: SearchIndex) -> bytes:
    """Return the index as the content of a file."""
    return index.database.serialize()


def parse_search_index(content: bytes) -> SearchIndex:
    """Return the index that ``dump_search_index`` wrote.

    Raises:
        sqlite3.Error: The content is something else.
    """
    if not content:  # deserialize says MemoryError
        raise sqlite3.DatabaseError("an index of no bytes")
    database = _open_database()
    database.deserialize(content)
    return _read_index(database)


def _open_database() -> sqlite3.Connection:
    # Any thread of a server may read it; nothing writes after it was built.
    return sqlite3.connect(":memory:", check_same_thread=False)


def _read_index(database: sqlite3.Connection) -> SearchIndex:
    documents = tuple(
        Document(*row) for row in database.execute("SELECT * FROM document ORDER BY rowid")
    )
    vocabulary = frozenset(word for (word,) in database.execute("SELECT word FROM vocabulary"))
    raw: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for name, position, share in database.execute("SELECT * FROM counter"):
        raw[name].append((position, share))
    return SearchIndex(documents, database, vocabulary, {k: tuple(v) for k, v in raw.items()})


def _normalise(text: str) -> str:
    return " ".join(_add_bare_forms(split_words(text)))


def _add_bare_forms(words: list[str]) -> Iterator[str]:
    """Yield words; one that begins with un- or non- also without it."""
    for word in words:
        yield word
        bare = strip_negation(word)
        if bare != word:
            yield bare


def _iter_counters(documents: tuple[Document, ...]) -> Iterator[tuple[str, int, float]]:
    """Yield (name, position, share) for every counter that a document is about or reads."""
    readers: dict[str, set[int]] = defaultdict(set)
    for position, document in enumerate(documents):
        for name in dict.fromkeys(map(str.lower, document.raw_names)):
            yield name, position, 1.0
        for name in set(map(str.lower, document.read_names)) - set(document.raw_names):
            readers[name].add(position)
    for name, positions in readers.items():
        for position in sorted(positions):
            yield name, position, 0.05 / len(positions)
