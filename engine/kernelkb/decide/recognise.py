"""Recognises which fix a change applied, from its source, its machine code and its author's words.

A signature says what a fix adds and removes (``recognised_by`` of a fix). A change may fit several;
those with the most evidence are told, and none where none fits: an unknown change.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.model.records.history import Recognition

if TYPE_CHECKING:
    from kernelkb.decide.rules import SignatureRow

_MAX_FIXES = 3
_MAX_LINES = 5
_LEAST_EVIDENCE = 2
"""Patterns and counts that must agree where the fix was neither advised nor named: one pattern
alone also matches other changes (on the zoo's pairs it named a wrong fix twice as often)."""
_LEAST_CHANGE = 0.2
"""Share by which a count must differ to be more or fewer (judgement)."""


class SourceChange(NamedTuple):
    """The lines that differ between two texts."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    places: tuple[int, ...]
    """Numbers of the first added line of each place, or of the line behind a removal."""


class RecognisedChange(NamedTuple):
    """What a change is taken to be."""

    fixes: tuple[str, ...]
    """The most probable first; empty: unknown."""
    by: Recognition | None
    lines: tuple[int, ...]


class ChangeEvidence(NamedTuple):
    """All that is known of a change."""

    sources: Sequence[tuple[str, str]]
    """Text of each file before and after; empty where there was or is none."""
    counts: tuple[Mapping[str, float], Mapping[str, float]] | None = None
    """Instructions by kind before and after; None where they are not known."""
    said: str | None = None
    """The author's words."""
    advised: str | None = None
    """The first fix that was recommended for the state before."""
    same_code: bool = False
    """Whether the machine code is known to be that of the state before."""
    is_whole: bool = True
    """Whether the sources are all that changed: not the flags, and no file without its text."""


def recognise_change(
    signatures: Mapping[str, SignatureRow], known: Collection[str], evidence: ChangeEvidence
) -> RecognisedChange:
    """Return the fixes that a change applies.

    Args:
        signatures: Of the fixes that have one.
        known: All fixes that an author may name.
        evidence: Of the change.
    """
    changes = [compare_lines(old, new) for old, new in evidence.sources]
    lines = tuple(place for change in changes for place in change.places)[:_MAX_LINES]
    named = _find_named(known, evidence.said or "")
    if named:
        doubted = find_unconfirmed(signatures, known, evidence)
        believed = tuple(fix for fix in named if fix not in doubted)
        return RecognisedChange(believed or named, "said" if believed else "unconfirmed", lines)
    added, removed = _join_changes(changes)
    found: dict[str, tuple[int, Recognition]] = {}
    for fix, signature in signatures.items():
        by_source = _count_source_evidence(signature, added, removed)
        by_code = _count_code_evidence(signature, evidence.counts)
        weight = by_source + by_code
        if weight >= (1 if fix == evidence.advised else _LEAST_EVIDENCE):
            found[fix] = weight, "code" if by_code else "source"
    if evidence.advised in found:
        return RecognisedChange((evidence.advised,), found[evidence.advised][1], lines)
    if evidence.advised and evidence.advised not in signatures and (added or removed):
        return RecognisedChange((evidence.advised,), "advice", lines)
    best = max((weight for weight, _ in found.values()), default=0)
    ranked = sorted(fix for fix, (weight, _) in found.items() if weight == best)
    return RecognisedChange(tuple(ranked[:_MAX_FIXES]), "guess" if ranked else None, lines)


def find_unconfirmed(
    signatures: Mapping[str, SignatureRow], known: Collection[str], evidence: ChangeEvidence
) -> dict[str, str]:
    """Return the fixes that the author names and that the change does not show, with the reason.

    A fix without a signature is believed. One with a signature is not believed where the machine
    code stayed the same, or where both the sources and the machine code are known, show nothing,
    and the signature finds every change of the zoo that applies the fix.

    Args:
        signatures: Of the fixes that have one.
        known: All fixes that an author may name.
        evidence: Of the change.
    """
    found: dict[str, str] = {}
    for fix in _find_named(known, evidence.said or ""):
        signature = signatures.get(fix)
        if signature is None:
            continue
        if evidence.same_code:
            found[fix] = "the machine code is the same as before"
        elif evidence.counts and _is_refuted(signature, evidence):
            told = _describe_counts(signature, *evidence.counts)
            found[fix] = f"neither source nor machine code shows it: {told}"
    return found


def _is_refuted(signature: SignatureRow, evidence: ChangeEvidence) -> bool:
    """Return whether a signature that finds all changes of its fix does not find this one."""
    if not (signature["finds_all"] and signature["code"] and evidence.is_whole):
        return False
    added, removed = _join_changes([compare_lines(old, new) for old, new in evidence.sources])
    return not (
        _count_source_evidence(signature, added, removed)
        or _count_code_evidence(signature, evidence.counts)
    )


def _describe_counts(
    signature: SignatureRow, before: Mapping[str, float], after: Mapping[str, float]
) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {before.get(name, 0.0):g} before, {after.get(name, 0.0):g} after"
        for name in signature["code"]
    )


def _join_changes(changes: Iterable[SourceChange]) -> tuple[str, str]:
    """Return all added lines as one text, and all removed ones."""
    pairs = [("\n".join(change.added), "\n".join(change.removed)) for change in changes]
    return "\n".join(added for added, _ in pairs), "\n".join(removed for _, removed in pairs)


def compare_lines(old: str, new: str) -> SourceChange:
    """Return the lines that differ; lines that differ in spaces alone, and comments, do not."""
    before, after = _strip_comments(old), _strip_comments(new)
    matcher = difflib.SequenceMatcher(None, _normalise(before), _normalise(after), autojunk=False)
    added, removed, places = [], [], []
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind != "equal":
            removed += [line for line in before[first:last] if line.strip()]
            new_lines = [at for at in range(start, end) if after[at].strip()]
            added += [after[at] for at in new_lines]
            if new_lines or any(line.strip() for line in before[first:last]):
                places.append((new_lines or [min(start, max(0, len(after) - 1))])[0] + 1)
    return SourceChange(tuple(added), tuple(removed), tuple(places))


def _strip_comments(text: str) -> list[str]:
    """Return the lines without comments, each at its place."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    return re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.DOTALL).splitlines()


def _normalise(lines: Iterable[str]) -> list[str]:
    return ["".join(line.split()) for line in lines]


def _find_named(known: Collection[str], said: str) -> tuple[str, ...]:
    """Return the fixes that an author names, with hyphens or spaces."""
    places: dict[str, int] = {}
    for fix in known:
        words = r"[\s_-]+".join(map(re.escape, fix.split("-")))
        if found := re.search(rf"(?<![\w-]){words}(?!\w)", said.lower()):
            places[fix] = found.start()
    return tuple(sorted(places, key=lambda fix: (places[fix], -len(fix))))[:_MAX_FIXES]


def _count_source_evidence(signature: SignatureRow, added: str, removed: str) -> int:
    """Return how many patterns of a signature hold; 0 unless all of them do."""
    count = 0
    for pattern, more, fewer in (
        (signature["added"], added, removed),
        (signature["removed"], removed, added),
    ):
        if pattern is None:
            continue
        if len(re.findall(pattern, more)) <= len(re.findall(pattern, fewer)):
            return 0
        count += 1
    return count


def _count_code_evidence(
    signature: SignatureRow, counts: tuple[Mapping[str, float], Mapping[str, float]] | None
) -> int:
    """Return how many counts of a signature changed as it says; 0 unless all of them did."""
    if counts is None or not signature["code"]:
        return 0
    before, after = counts
    for name, change in signature["code"].items():
        old, new = before.get(name, 0.0), after.get(name, 0.0)
        is_more = new > old * (1 + _LEAST_CHANGE)
        is_fewer = new < old * (1 - _LEAST_CHANGE)
        holds = {
            "some": not old and new > 0,
            "none": old > 0 and not new,
            "more": is_more,
            "fewer": is_fewer,
        }
        if not holds[change]:
            return 0
    return len(signature["code"])
