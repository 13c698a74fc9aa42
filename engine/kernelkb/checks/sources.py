"""Lint of the bibliography: where claims come from, and whether their evidence is of that kind."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.model.entries.fix import Fix
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.threshold import Source
from kernelkb.model.entries.workflow import Pattern

_MEASURED = frozenset({"own-measurement", "session"})
"""Reasons for having no address that stand for a measurement."""


def every_source_has_an_address_or_says_why_not(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every source has an address or says why it has none, not both."""
    for source in knowledge.bibliography.sources:
        if (source.url is None) == (source.without_url is None):
            yield source.id, _explain_address(source)


def every_evidence_has_its_source(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every fix or pattern that is reported names a public source, every measured one its own."""
    sources = {source.id: source for source in knowledge.bibliography.sources}
    zoo = {case.fix for case in knowledge.measured.cases}
    fixes = (fix for family in knowledge.families for fix in family.fixes)
    entries: tuple[Fix | Pattern, ...] = (*fixes, *knowledge.patterns)
    for entry in entries:
        named = [sources[name] for name in entry.sources]
        if entry.evidence == "reported" and not any(source.url for source in named):
            yield entry.id, "is reported, and none of its sources has an address"
        measured = any(source.without_url in _MEASURED for source in named) or entry.id in zoo
        if entry.evidence == "measured" and not measured:
            yield entry.id, "is measured, and none of its sources is a measurement or a session"


def _explain_address(source: Source) -> str:
    if source.url is None:
        return "has no address; give its url, or say why it has none in without_url"
    return "has a url, so remove without_url"
