"""Holds the words of every entry in an SQLite database, which a file can keep between two starts.

Imports neither networkx nor pydantic: a search that finds its index in a file needs neither.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kernelkb.graph.words import split_words, strip_negation

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
