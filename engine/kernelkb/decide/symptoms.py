"""Finds known symptoms in a build or run log and returns their causes and cures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from kernelkb.decide.cuda_errors import FoundError, describe_cuda_error, find_cuda_errors
from kernelkb.decide.log_text import LogText, clean_log

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, SymptomRow


class SymptomMatch(TypedDict):
    """One symptom in a log."""

    symptom: str
    kind: str
    severity: str
    """``error`` where it stops the work, ``warning`` where it only costs time or hides a cause."""
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
    """A remark computed from what was captured, or None."""
    fixes: list[str]
    pattern: str | None


class _SymptomHit(NamedTuple):
    row: SymptomRow
    matches: dict[int, re.Match[str]]
    """The first match of each line, by its number."""

    @property
    def order(self) -> tuple[bool, int, int]:
        """Errors before warnings, then by place; of two at one place the longer match first."""
        line, match = next(iter(self.matches.items()))
        return self.row["severity"] != "error", line, match.start() - match.end()


def find_symptoms(
    rules: CompiledRules, log: str | LogText, arch: str | None = None
) -> list[SymptomMatch]:
    """Return the symptoms found in a log: errors first, then warnings, each in order of lines.

    A line that a more specific symptom explains (``unless``) does not count for the general one,
    and a symptom that another one brings about (``consequence_of``) is not reported beside it.
    What only names a family of errors (``fallback``) is reported where no other error is found.

    Args:
        rules: The compiled rules.
        log: Output of a compiler, a loader, a sanitizer or a run.
        arch: Compute capability such as ``8.9``; read from the log when None.
    """
    text = clean_log(log) if isinstance(log, str) else log
    codes = find_cuda_errors((e for row in rules["symptoms"] for e in row["cuda_errors"]), text)
    found = {
        row["id"]: matches for row in rules["symptoms"] if (matches := _match(row, text, codes))
    }
    hits = []
    for row in rules["symptoms"]:
        if row["id"] not in found or not found.keys().isdisjoint(row["consequence_of"]):
            continue
        explained = {line for name in row["unless"] for line in found.get(name, ())}
        matches = {n: match for n, match in found[row["id"]].items() if n not in explained}
        if matches:
            hits.append(_SymptomHit(row, matches))
    if any(hit.row["severity"] == "error" and not hit.row["fallback"] for hit in hits):
        hits = [hit for hit in hits if not hit.row["fallback"]]
    hits.sort(key=lambda hit: hit.order)
    return [_describe_hit(rules, hit, text, arch) for hit in hits]


def find_failure(rules: CompiledRules, log: str) -> SymptomMatch | None:
    """Return the symptom that explains why a log's command failed; None without one.

    What only names a family of errors explains no more than the compiler's own words.
    """
    general = {row["id"] for row in rules["symptoms"] if row["fallback"]}
    found = (row for row in find_symptoms(rules, log) if row["symptom"] not in general)
    return next((row for row in found if row["severity"] == "error"), None)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; there are more than the cache of ``re`` keeps."""
    return re.compile(pattern, re.MULTILINE)


def _match(
    row: SymptomRow, text: LogText, codes: Mapping[int, list[FoundError]]
) -> dict[int, re.Match[str]]:
    """Return the first match of each line, in order of lines."""
    matches: dict[int, re.Match[str]] = {}
    for pattern in row["log_patterns"]:
        for match in _compile(pattern).finditer(text.matched):
            matches.setdefault(text.line_at(match.start()), match)
    own = {error["code"] for error in row["cuda_errors"]}
    for line, errors in codes.items() if own else ():
        for error in errors:
            if error.row["code"] in own:
                matches.setdefault(line, error.match)
    return dict(sorted(matches.items()))


def _describe_hit(
    rules: CompiledRules, hit: _SymptomHit, text: LogText, arch: str | None
) -> SymptomMatch:
    row = hit.row
    line, match = next(iter(hit.matches.items()))
    captured = {name: value for name, value in match.groupdict().items() if value is not None}
    known_arch = arch or _find_log_architecture(text.shown)
    return {
        "symptom": row["id"],
        "kind": row["kind"],
        "severity": row["severity"],
        "title": row["title"],
        "line": line,
        "said": text.quote_line(line, match.start()),
        "captured": captured,
        "times": len(hit.matches),
        "cause": row["cause"],
        "cure": row["cure"],
        "check": row["check"],
        "note": _describe_captured(rules, row, captured, known_arch),
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
    if "error" in captured:
        return describe_cuda_error(row["cuda_errors"], captured["error"])
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
