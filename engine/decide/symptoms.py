"""Finds known symptoms in a build or run log and returns their causes and cures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, SymptomRow


class SymptomMatch(TypedDict):
    """One symptom in a log."""

    symptom: str
    kind: str
    title: str
    line: int
    """Number of its first line in the log, from 1."""
    said: str
    """Text of that line."""
    captured: dict[str, str]
    """Values of the named groups of the regular expression."""
    times: int
    """Number of log lines that show it."""
    cause: str
    cure: str
    check: str
    note: str | None
    """A remark computed from the captured numbers, or None."""
    fixes: list[str]
    pattern: str | None


class _SymptomHit(NamedTuple):
    row: SymptomRow
    match: re.Match[str]
    line_count: int


_MAX_LINE_LENGTH = 300
"""Maximum number of characters of a log line in an answer."""


def find_symptoms(rules: CompiledRules, log: str, arch: str | None = None) -> list[SymptomMatch]:
    """Return the symptoms found in a log, in order of their first occurrence.

    Args:
        rules: The compiled rules.
        log: Output of a compiler, a loader, a sanitizer or a run.
        arch: Compute capability such as ``8.9``; read from the log when None.
    """
    text = log.replace("\r\n", "\n")
    hits = {row["id"]: hit for row in rules["symptoms"] if (hit := _match_symptom(row, text))}
    shown = [hit for hit in hits.values() if hits.keys().isdisjoint(hit.row["unless"])]
    shown.sort(key=lambda hit: hit.match.start())
    return [_describe_hit(rules, hit, text, arch) for hit in shown]


def _match_symptom(row: SymptomRow, text: str) -> _SymptomHit | None:
    matches = [m for p in row["log_patterns"] for m in re.finditer(p, text, re.MULTILINE)]
    if not matches:
        return None
    first = min(matches, key=lambda m: m.start())
    lines = {text.count("\n", 0, m.start()) for m in matches}
    return _SymptomHit(row, first, len(lines))


def _describe_hit(
    rules: CompiledRules, hit: _SymptomHit, text: str, arch: str | None
) -> SymptomMatch:
    row, match = hit.row, hit.match
    captured = {name: value for name, value in match.groupdict().items() if value is not None}
    start = text.rfind("\n", 0, match.start()) + 1
    said = text[start:].partition("\n")[0].strip()
    return {
        "symptom": row["id"],
        "kind": row["kind"],
        "title": row["title"],
        "line": text.count("\n", 0, match.start()) + 1,
        "said": said[:_MAX_LINE_LENGTH],
        "captured": captured,
        "times": hit.line_count,
        "cause": row["cause"],
        "cure": row["cure"],
        "check": row["check"],
        "note": _describe_captured(rules, row, captured, arch or _find_log_architecture(text)),
        "fixes": row["fixes"],
        "pattern": row["pattern"],
    }


def _find_log_architecture(text: str) -> str | None:
    """Return the compute capability of the ``sm_`` target in a log; None if not exactly one."""
    named = set(re.findall(r"\bsm_(\d+)(\d)[af]?\b", text))
    return ".".join(named.pop()) if len(named) == 1 else None


def _describe_captured(
    rules: CompiledRules, row: SymptomRow, captured: Mapping[str, str], arch: str | None
) -> str | None:
    if row["explain"] != "shared-memory":
        return None
    size = captured.get("bytes") or captured.get("size")
    if size is None:
        return None
    return " ".join(_describe_shared_memory_fit(rules, int(size, 16), arch)) or None


def _describe_shared_memory_fit(rules: CompiledRules, size: int, arch: str | None) -> Iterator[str]:
    common, architectures = rules["hardware"]["common"], rules["hardware"]["architectures"]
    static = common["static_smem_block"]
    if size <= static:
        return
    yield f"{size:,} bytes exceed the {static:,} that a block may declare with a fixed size."
    if arch in architectures:
        most = architectures[arch]["smem_optin_block"]
        limit = f"the {most:,} of a block of {_format_architecture(arch)}"
        if size <= most:
            yield f"They fit {limit} after opting in."
        else:
            yield f"They exceed even {limit}: make the tile smaller."
        return
    fits = [
        _format_architecture(cc)
        for cc, row in architectures.items()
        if size <= row["smem_optin_block"]
    ]
    if fits:
        yield f"After opting in they fit a block of {', '.join(fits)}."
    else:
        yield "No GPU has that much for a block: make the tile smaller."


def _format_architecture(cc: str) -> str:
    return f"sm_{cc.replace('.', '')}"
