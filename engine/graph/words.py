"""Splits text into the words that the search compares: lower case, units apart, no stop words."""

from __future__ import annotations

import re

_STOP_TEXT = """
a about actually after again all almost already also although always am an and another any anyone
anything are as ask asked at away bad be because been before being best better between bit both but
by can cannot cant certain clearly come comes could currently definitely despite did do does doesnt
doing done dont during each either else enough especially etc ever every everything exactly finding
following for from get gets getting give given gives go going good got had happen happened happening
happens has have having he hello help her here hes hey hi his how however i if im in instead into is
isnt it its itself ive just keep know later less let like little look lot made make makes making
many may maybe me mean means might more most much must my myself need needed needs never nice no not
nothing now of off often okay on once one only or other otherwise our out over perhaps please
possible pretty put puts quite rather really right said same say says see seem seems she shes should
show simply since so some somehow something sometimes soon still stuck stuff such sure take takes
taking tell than thank thanks that the their them then there these they theyre thing things this
those though through to today together told tomorrow too took toward tried try trying unless until
up upon us use used uses using usually various very via want wanted wants was way we well went were
what whatever when whenever where wherever whether which while who whose why will with without won
would yes yet you your youre
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
"""Words that carry no subject: a question made of them alone fits nothing."""

_TOKEN = re.compile(r"\d+\.\d+|[a-z]+[a-z0-9]*|\d+[a-z]*")
_ARCHITECTURE = re.compile(r"\b(?:sm|compute)_?(\d{2,3})[af]?\b")
_UNIT = re.compile(r"(\d+)(?:gb|gib|kb|kib|mb|mib|tb|bit|bytes?|w|us|ms|x)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BRITISH = re.compile(r"is(e|ed|er|es|ing|ation|ations)$")
_BARE = re.compile(r"^(?:un|non)(?=[a-z]{5})")


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, stop words included.

    ``sm_90a`` is one word, as is ``8.9``; ``40GB`` is ``40``; -ise is written -ize.
    """
    lowered = _ARCHITECTURE.sub(r"sm\1", text.lower().replace("'", ""))
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
