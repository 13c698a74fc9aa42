"""Splits text into the words that the search compares: lower case, units apart, no stop words."""

from __future__ import annotations

import re

_STOP_TEXT = """
a about across actually advantage advice after again all almost already also although always am an
and another any anybody anyone anything appears approximately are as ask asked assume at away bad
basically be because been before being believe benefit best better between bit both but by can
cannot cant certain clearly come comes consider considering could currently definitely despite did
do does doesnt doing done dont dramatically during each easily either else enough entire especially
essentially etc ever every everything exactly excessive extremely fact fairly feel finding
following for from get gets getting give given gives go going good got greatly guess had happen
happened happening happens has have having he hello help her here hes hey hi his how however i idea
ideas identical if im important in instead interesting into intuition investigate is isnt it its
itself ive just keep know later latest less let like little look lot made mainly make makes making
many may maybe me mean means mention might moment more most much must my myself nearly need needed
needs never nice no not nothing notice noticed now observe observed obtain obvious occur occurs of
off often ok okay on once one only opinion or other otherwise our out over particular people
perhaps please pleased possible pretty previous previously proper properly provide provided
provides purpose put puts quick quickly quite rather realize really recently regarding regards
related relatively respectively right roughly said same say says see seem seems seen she shes
should show similar simply since situation slight slightly so some somehow something sometimes soon
still strange stuck stuff such suddenly suggest suggestion suggestions supposed sure surprising
surprisingly take takes taking tell than thank thanks that the their them then there these they
theyre thing things this those though through to today together told tomorrow too took topic toward
tried truly try trying understand unexpected unfortunately unless until up upon us use used uses
using usual usually various very via want wanted wants was way we weird well went were what
whatever when whenever where wherever whether which while who whole whose why will with without won
wonder wondering worse worst worth would yes yet you your youre
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
