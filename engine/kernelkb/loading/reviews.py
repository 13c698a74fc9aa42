"""Applies the corrections of review files to loaded knowledge, and lists what each changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeVar

from pydantic import BaseModel

from kernelkb.errors import KnowledgeError, Problem
from kernelkb.loading.located import locate_problem
from kernelkb.loading.references import LoadedFile
from kernelkb.model.entries.bottleneck import All, Bottleneck
from kernelkb.model.entries.bottleneck import Any as Either
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import (
    AcceptedReview,
    ConditionChange,
    Correction,
    FixChange,
    KnowledgeChange,
    PatternChange,
    ThresholdChange,
    WhenNotChange,
)
from kernelkb.model.entries.quantities import Source
from kernelkb.model.entries.workflow import Pattern

M = TypeVar("M", bound=BaseModel)
_Change = tuple[str, str, str, object, object]
"""Kind, id, field, was and now of a ``KnowledgeChange``."""


def apply_reviews(knowledge: Knowledge, files: list[LoadedFile]) -> Knowledge:
    """Return the knowledge with the corrections of every review file, the oldest file first.

    Raises:
        KnowledgeError: A correction cannot be applied; names its place in the file.
    """
    reviews = [(file, file.record) for file in files if isinstance(file.record, AcceptedReview)]
    if not reviews:
        return knowledge
    reviews.sort(key=lambda pair: (pair[1].date, pair[1].session))
    editor = _KnowledgeEditor(knowledge)
    problems: list[Problem] = []
    for file, review in reviews:
        editor.start_review(review)
        for position, correction in enumerate(review.corrections):
            try:
                editor.apply_correction(correction)
            except _CorrectionError as error:
                loc = ("corrections", position, error.key)
                problems.append(locate_problem(file.display_path, file.marks, loc, str(error)))
    if problems:
        raise KnowledgeError(problems)
    return editor.build_knowledge(tuple(review for _, review in reviews))


def make_review_source_id(session: str) -> str:
    """Return the id of a session's review in the bibliography."""
    words = "-".join(re.findall("[a-z0-9]+", session))
    if words == session and len(words) <= 50:
        return f"review-{words}"
    digest = blake2b(session.encode(), digest_size=4).hexdigest()  # two sessions, two sources
    return f"review-{words[:40].strip('-')}-{digest}"


class _CorrectionError(Exception):
    def __init__(self, key: str, text: str) -> None:
        self.key = key
        super().__init__(text)


class _KnowledgeEditor:
    """Working copies of the entries that corrections can change."""

    _review: AcceptedReview
    _source: str

    def __init__(self, knowledge: Knowledge) -> None:
        self._before = knowledge
        self._metrics = {m.id: m for m in knowledge.catalogue.metrics}
        self._thresholds = {t.id: t for t in knowledge.thresholds.thresholds}
        self._bottlenecks = {b.id: b for b in knowledge.bottlenecks}
        self._fixes = {f.id: f for family in knowledge.families for f in family.fixes}
        self._patterns = list(knowledge.patterns)
        self._overridden = dict(knowledge.overridden)
        self._sources = list(knowledge.bibliography.sources)
        self._changed: list[KnowledgeChange] = []

    def start_review(self, review: AcceptedReview) -> None:
        """Attribute the next corrections to this review."""
        self._review, self._source = review, make_review_source_id(review.session)
        title = f"Review of session {review.session} by {review.reviewer}"
        self._sources.append(
            Source(id=self._source, title=title, without_url="session", read=review.date)
        )

    def apply_correction(self, correction: Correction) -> None:
        """Apply one correction and record what it changed."""
        match correction:
            case ThresholdChange():
                change = self._change_threshold(correction)
            case ConditionChange():
                change = self._change_condition(correction)
            case FixChange():
                change = self._change_fix_order(correction)
            case WhenNotChange():
                change = self._add_when_not(correction)
            case PatternChange():
                change = self._add_pattern(correction)
        fields = dict(zip(("kind", "id", "field", "was", "now"), change, strict=True))
        by = self._review.model_dump(include={"session", "reviewer", "date"})
        self._changed.append(
            KnowledgeChange.model_validate({**fields, **by, "why": correction.why})
        )

    def build_knowledge(self, reviews: tuple[AcceptedReview, ...]) -> Knowledge:
        """Return the corrected knowledge."""
        old = self._before
        families = (
            _copy_with_lists(family, fixes=[self._fixes[fix.id] for fix in family.fixes])
            for family in old.families
        )
        return old.model_copy(
            update={
                "thresholds": _copy_with_lists(
                    old.thresholds, thresholds=self._thresholds.values()
                ),
                "bottlenecks": tuple(self._bottlenecks.values()),
                "families": tuple(families),
                "patterns": tuple(self._patterns),
                "bibliography": _copy_with_lists(old.bibliography, sources=self._sources),
                "overridden": self._overridden,
                "reviews": reviews,
                "changed": tuple(self._changed),
            }
        )

    def _change_threshold(self, change: ThresholdChange) -> _Change:
        old = self._thresholds[change.threshold]
        low, high = self._metrics[old.metric].range
        if change.value < low or (high is not None and change.value > high):
            until = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
            raise _CorrectionError("value", f"{old.metric} is {until}, never {change.value:g}")
        update: dict[str, Any] = {"sources": self._add_source(old.sources)}
        if change.device is None:
            was, field = old.value, "value"
            update |= {"value": change.value, "evidence": "judgement", "why": change.why}
            self._overridden.setdefault(old.id, was)
        else:
            was, field = old.by_device.get(change.device, old.value), f"value.{change.device}"
            update["by_device"] = {**old.by_device, change.device: change.value}
        self._thresholds[old.id] = old.model_copy(update=update)
        return "threshold", old.id, field, was, change.value

    def _change_condition(self, change: ConditionChange) -> _Change:
        old = self._bottlenecks[change.bottleneck]
        when: All | Either
        if change.only_if is not None:
            parts = old.when.all if isinstance(old.when, All) else (old.when,)
            when = All(all=(*parts, change.added_condition))
        else:
            parts = old.when.any if isinstance(old.when, Either) else (old.when,)
            when = Either(any=(*parts, change.added_condition))
        self._bottlenecks[old.id] = old.model_copy(update={"when": when})
        return "bottleneck", old.id, "when", old.when, when

    def _change_fix_order(self, change: FixChange) -> _Change:
        old, fix = self._bottlenecks[change.bottleneck], self._fixes[change.fix]
        if old.target not in fix.targets:
            message = f"{fix.id} is no fix on {old.target}, the target of {old.id}"
            raise _CorrectionError("fix", message)
        order = _reorder_fixes(old, change)
        self._bottlenecks[old.id] = old.model_copy(update={"fixes": order})
        return "bottleneck", old.id, "fixes", old.fixes, order

    def _add_when_not(self, change: WhenNotChange) -> _Change:
        old = self._fixes[change.fix]
        text = f"{old.when_not}; {change.when_not}" if old.when_not else change.when_not
        update = {"when_not": text, "sources": self._add_source(old.sources)}
        self._fixes[old.id] = old.model_copy(update=update)
        return "fix", old.id, "when_not", old.when_not, text

    def _add_pattern(self, change: PatternChange) -> _Change:
        fields = change.model_dump(exclude={"change", "candidate", "why"})
        self._patterns.append(Pattern(**fields, sources=(self._source,)))
        return "pattern", change.id, "practice", None, change.practice

    def _add_source(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        return sources if self._source in sources else (*sources, self._source)


def _reorder_fixes(bottleneck: Bottleneck, change: FixChange) -> tuple[str, ...]:
    others = [fix for fix in bottleneck.fixes if fix != change.fix]
    if change.move == "first":
        return (change.fix, *others)
    if change.move == "last":
        return (*others, change.fix)
    if change.fix not in bottleneck.fixes:
        cure = f"move it first or last to add it (offered: {', '.join(bottleneck.fixes)})"
        raise _CorrectionError("fix", f"{bottleneck.id} does not offer {change.fix}; {cure}")
    if change.move == "withdraw":
        if not others:
            message = f"{bottleneck.id} would be left without a fix; add another first"
            raise _CorrectionError("fix", message)
        return tuple(others)
    place = bottleneck.fixes.index(change.fix)
    others.insert(max(0, place - 1) if change.move == "up" else place + 1, change.fix)
    return tuple(others)


def _copy_with_lists(record: M, **lists: Iterable[Any]) -> M:
    return record.model_copy(update={name: tuple(items) for name, items in lists.items()})
