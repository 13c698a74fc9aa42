"""The words of every entry as an index: an SQLite database, which a file can keep.

FTS5 stems the words. Besides what an entry holds in all, each of its names stands by itself: a
question that holds one name whole is about more than one that holds a word of each of several.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernelkb.model.entries.knowledge import UsualCauses

_STOP_TEXT = """
a about across actually advantage advice after again all almost already also although always am an
and another any anybody anyone anything app appears approximately are as ask asked assume at
average away bad basically be because been before behavior behaviour being believe benefit best
better between bit both but by can cannot cant certain clearly come comes consider considering
could currently definitely despite did do does doesnt doing done dont dramatically during each
easily either else enough entire environment especially essentially etc ever every everything
exactly excessive expected extremely fact fairly feel finding following for from get gets getting
give given gives go going good got greater greatly guess had happen happened happening happens has
have having he hello help her here hes hey hi his how however i idea ideas identical if im
implementation important in instead interesting into intuition investigate is isnt it its itself
ive just keep know later latest less let like little look lot made mainly make makes making many
may maybe me mean means mention might moment more most much must my myself nearly need needed needs
never nice no not nothing notice noticed now observe observed obtain obvious occur occurs of off
often ok okay on once one only opinion or other otherwise our out over particular people perhaps
please pleased possible pretty previous previously proper properly provide provided provides
purpose put puts quick quickly quite rather realize really recently regarding regards related
relatively respectively right roughly said same say says see seem seems seen she shes should show
similar simply since situation slight slightly so some somehow something sometimes soon still
strange stuff such suddenly suggest suggestion suggestions supposed sure surprising surprisingly
take takes taking tell than thank thanks that the their them then there these they theyre thing
things this those though through to today together told tomorrow too took topic toward tried truly
try trying understand unexpected unexpectedly unfortunately unless until up upon us use used uses
using usual usually various versus very via vs want wanted wants was way we weird well went were
what whatever when whenever where wherever whether which while who whole whose why will with
without won wonder wondering worse worst worth would yes yet you your youre
"""
GENERAL_SHARE = 0.25
"""Share of the weight of a word that nearly every question of this field holds."""
STOP_WORDS = frozenset(_STOP_TEXT.split())
"""Words that carry no subject: a question made of them alone fits nothing."""

RAW_NAME = re.compile(r"\b[a-z0-9]+__[a-z0-9_]+(?:\.[a-z0-9_]+|\[\w+\])*", re.IGNORECASE)
"""A name of one of Nsight Compute's counters, with or without its suffixes."""

_TOKEN = re.compile(r"\d+\.\d+|[a-z]+[a-z0-9]*|\d+[a-z]*")
_ARCHITECTURE = re.compile(r"\b(?:sm|compute)_?(\d{2,3})[af]?\b")
_UNIT = re.compile(r"(\d+)(?:gb|gib|kb|kib|mb|mib|tb|bit|bytes?|w|us|ms|x)")
_FLAG = re.compile(r"(?<!\S)-([a-z])\b")
_HYPHEN = re.compile(r"\b([a-z]{3,})-([a-z])\b")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BRITISH = re.compile(r"is(e|ed|er|es|ing|ation|ations)$")
_BARE = re.compile(r"^(?:un|non)(?=[a-z]{5})")

INDEX_SCHEMA = 4
"""Version of the tables and of what they hold; part of the name of a file that keeps them."""
_TABLES = """
CREATE VIRTUAL TABLE entry USING fts5(
    id, title, also, body, content='', tokenize='porter ascii'
);
CREATE VIRTUAL TABLE word_list USING fts5(name UNINDEXED, words, tokenize='porter ascii');
CREATE VIRTUAL TABLE name USING fts5(words, tokenize='porter ascii');
CREATE VIRTUAL TABLE name_term USING fts5vocab(name, 'instance');
CREATE VIRTUAL TABLE list_term USING fts5vocab(word_list, 'instance');
CREATE TABLE name_norm (position INTEGER, norm REAL);
CREATE TABLE document (kind TEXT, id TEXT, title TEXT);
CREATE TABLE vocabulary (word TEXT);
CREATE TABLE counter (name TEXT, position INTEGER, share REAL);
CREATE TABLE usual_cause (
    said TEXT, unsaid TEXT, is_firm INTEGER, position INTEGER, place INTEGER
);
"""
_SENTENCE_KINDS = frozenset(("threshold", "guard", "workflow"))
"""Kinds of entries that have no title: the reason or the action stands for it."""


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

    def get_names(self) -> tuple[str, ...]:
        """Return what it is called: id, title and other names."""
        title = () if self.kind in _SENTENCE_KINDS else (self.title,)
        return (self.id, *title, *self.also.split(" ; "))

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
    names: Mapping[int, tuple[int, float]]
    """Of each name of a document: the document's position, and the weight of all words of it."""

    def find_names(self, word: str) -> list[int]:
        """Return the names that hold a word, in any form."""
        rows = self.database.execute("SELECT rowid FROM name WHERE name MATCH ?", (f'"{word}"',))
        return [rowid for (rowid,) in rows]


def build_search_index(
    documents: Iterable[Document],
    word_lists: Mapping[str, Iterable[str]] | None = None,
    usual_causes: Iterable[UsualCauses] = (),
) -> SearchIndex:
    """Return the index of some documents; about 100 ms for a thousand.

    Args:
        documents: The entries.
        word_lists: Words by what they say about a question; see ``SearchTerms``.
        usual_causes: Entries for questions that hold a word of each of several such lists.
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
    _add_names(database, kept)
    database.executemany("INSERT INTO document VALUES (?, ?, ?)", (d[:3] for d in kept))
    words = {word for row in rows for text in row for word in text.split()}
    database.executemany("INSERT INTO vocabulary VALUES (?)", ((word,) for word in sorted(words)))
    database.executemany("INSERT INTO counter VALUES (?, ?, ?)", _iter_counters(kept))
    database.executemany(
        "INSERT INTO usual_cause SELECT ?, ?, ?, rowid - 1, ? FROM document WHERE id = ?",
        (
            (" ".join(one.said), " ".join(one.unsaid), one.firm, place, cause)
            for one in usual_causes
            for place, cause in enumerate(one.causes)
        ),
    )
    database.commit()
    return _read_index(database)


def _add_names(database: sqlite3.Connection, documents: tuple[Document, ...]) -> None:
    """Add each name of each document, and the weight of its words: of many documents little."""
    named = [
        (position, words)
        for position, document in enumerate(documents)
        for name in document.get_names()
        if (words := [word for word in split_words(name) if word not in STOP_WORDS])
    ]
    database.executemany(
        "INSERT INTO name (words) VALUES (?)", ((" ".join(words),) for _, words in named)
    )
    general = database.execute(
        "SELECT DISTINCT term FROM list_term WHERE doc IN"
        " (SELECT rowid FROM word_list WHERE name = 'general')"
    )
    everyday = {term for (term,) in general}
    held: dict[int, set[str]] = defaultdict(set)
    holders: dict[str, set[int]] = defaultdict(set)
    for term, name in database.execute("SELECT DISTINCT term, doc FROM name_term"):
        held[name].add(term)
        holders[term].add(named[name - 1][0])
    weights = {
        term: (GENERAL_SHARE if term in everyday else 1.0)
        * math.log(1 + len(documents) / (1 + len(positions)))
        for term, positions in holders.items()
    }
    database.executemany(
        "INSERT INTO name_norm (rowid, position, norm) VALUES (?, ?, ?)",
        (
            (name, position, sum(weights[term] for term in held[name]))
            for name, (position, _) in enumerate(named, start=1)
        ),
    )


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
    rows = database.execute("SELECT rowid, position, norm FROM name_norm")
    names = {rowid: (position, norm) for rowid, position, norm in rows}
    counters = {name: tuple(found) for name, found in raw.items()}
    return SearchIndex(documents, database, vocabulary, counters, names)


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
