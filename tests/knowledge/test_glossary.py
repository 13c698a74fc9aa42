"""The glossary holds the terms of the field and of this tool, one line each.

The id of a metric is split into words: each, in singular or plural, has a line in docs/glossary.md,
or is plain English and stands in PLAIN_WORDS.
"""

import re
from collections import Counter
from pathlib import Path

from kernelkb.loading.knowledge import load_knowledge

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
IRREGULAR_PLURALS = {"axes": "axis", "diagnoses": "diagnosis", "leaves": "leaf"}
PLAIN_TEXT = """
absolute address all allocated approximate arithmetic average balanced behind below beyond bit
blocked branch break build busiest busy call clock communication compiled conversion correct
count cycles data debug difference distinct division double doubled dynamic elapsed empty exact
excess executed factor fewest fill filling first flight float fp framework free full function
gather gpu half heavy host hottest ideal idle index instruction integer joint kept launched
layout left library likely likeness limit link loaded long longest loop looped loss lost mask
matches matrix max mean merge minimum misc most name narrow next no not one op other output packed
parallel part peer per plain practical process product profiled program rate ratio read relieved
remainder remote repeat required resolved resolving reuse rounds row scaling seconds selected
shape short single size sleeping sorting source specialised starved static step store sum sync
theoretical throttled tightest tiled timing to torch unequal unexplained unspilled update use
useful value variation walk wide widened widening work worst write
"""
"""Words that mean here what they mean anywhere. A term of the field goes into the glossary."""
PLAIN_WORDS = frozenset(PLAIN_TEXT.split())


def split_words(name):
    """Return the words of a name in lower case; a word of digits alone is none."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return [word.lower() for word in words if not word.isdigit()]


def read_terms():
    """Return the first cell of every row."""
    cells = re.findall(r"^\| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [cell for cell in cells if cell != "word"]


def iter_forms(word):
    """Yield a word and what it may be a plural or singular of."""
    yield from (word, IRREGULAR_PLURALS.get(word, word), f"{word}s")
    if word.endswith("ies"):
        yield f"{word[:-3]}y"
    if word.endswith("s"):
        yield from (word[:-1], word.removesuffix("es"))


def test_every_word_of_a_metric_is_explained_or_plain():
    explained = {word for term in read_terms() for word in split_words(term)} | PLAIN_WORDS
    names = sorted(metric.id for metric in load_knowledge().catalogue.metrics)
    missing = {
        word: name
        for name in names
        for word in split_words(name)
        if explained.isdisjoint(iter_forms(word))
    }

    assert names
    assert missing == {}


def test_a_word_has_one_line():
    terms = Counter(part for term in read_terms() for part in term.lower().split(", "))

    assert [term for term, count in terms.items() if count > 1] == []


def test_no_plain_word_is_explained_as_well():
    explained = {term.lower() for term in read_terms()}

    assert explained & PLAIN_WORDS == set()


def test_the_words_of_a_table_are_sorted():
    tables = re.split(r"^## .+$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]

    for table in tables:
        terms = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:]
        assert terms == sorted(terms, key=str.lower)
