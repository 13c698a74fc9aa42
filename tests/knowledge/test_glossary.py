"""The glossary holds one line for each word that the metrics and records are named with.

The rule: the id of a metric, the name of a public class of ``kernelkb.model`` and the name of its
field are split into words. Each word, in singular or plural, has a line in docs/glossary.md, or is
plain English (or plain programming) and stands in PLAIN_WORDS. The formats of other projects
(``kernelkb.model.kernels.foreign``, ``compute_eval``) have names of their own.
"""

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

import kernelkb.model
from kernelkb.loading.knowledge import load_knowledge

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
IRREGULAR_PLURALS = {"axes": "axis", "diagnoses": "diagnosis", "leaves": "leaf"}
PLAIN_TEXT = """
abs absolute accepted achievable add added address advised after alarms aliases all allocated also
amount answer any applied applies approximate arithmetic array ask at atol available average axes b
balanced because been before behind below best beyond bibliography blocked branch breaks budget
busiest by call can cannot captures cause cc75 changed checked closes coarse combined comes command
comment common communication compared compiled compiler computes conclusions conditional
confirm confirmed recorded
conversion corrections could data date debug default defines derive derived detail difference direct
cuda direction directory distinct division do driver dropped duration dynamic elapsed empty error
estimate estimates exact examined example except excluded expectation explain explanation extra fact
factor fail failed fallback false fewest field file fill filling final finds first fixed flag flags
flight
float followed follows forgotten found free from full function goal half have heavy held id ideal if
includes index input inputs inside is judged judgement judgements knowledge language latest launched
leads learned left library limit limits loaded long lowers matched matches measure measured median
minimum minutes misc module move name needs negated next no not note notes now number observed on
one only op opened operation options other otherwise output outputs overridden own pairwise parallel
parent part parts passes per place plain planned power practical practice predicted preview previous
priced problem problems process profiled profiler promoted python queued range raw reached read
reason recognised recommendation refined refines rejected relieved remainder remarks removed report
require required reserved resolve resolved resolving result returns reviewer right risk root rows
rtol s said same sanitized saved say says scale scaling seconds section selected sha256 shape short
should side similar size skip slope solved specialised starts starved state static succeeded success
summary sync synonyms take temperature terms text then theoretical three throttled tightest tiled
timed timing title to together told tool torch tried true undoes unequal unexplained unit unknown
unless unmeasured unrecorded unspilled update url use useful usual value variation vectorized verify
version wanted warnings was went when while why wide widen widening width within without worked
worst write wrong zero
failure general outside
"""
"""Words that mean here what they mean anywhere. A term of the field goes into the glossary."""
PLAIN_WORDS = frozenset(PLAIN_TEXT.split())


def split_words(name):
    """Return the words of a name in lower case; a word of digits alone is none."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return [word.lower() for word in words if not word.isdigit()]


def iter_model_names():
    for module_info in pkgutil.iter_modules(kernelkb.model.__path__):
        if module_info.name in ("foreign", "compute_eval"):
            continue
        module = importlib.import_module(f"kernelkb.model.{module_info.name}")
        for name, member in inspect.getmembers(module, inspect.isclass):
            if member.__module__ == module.__name__ and not name.startswith("_"):
                yield name
                if issubclass(member, BaseModel):
                    yield from member.model_fields


def iter_names():
    yield from iter_model_names()
    yield from (metric.id for metric in load_knowledge().catalogue.metrics)


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


def test_every_word_of_a_public_name_is_explained_or_plain():
    explained = {word for term in read_terms() for word in split_words(term)} | PLAIN_WORDS
    names = sorted(set(iter_names()))
    missing = {
        word: name
        for name in names
        for word in split_words(name)
        if explained.isdisjoint(iter_forms(word))
    }

    assert len(names) > 500
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
