"""Accepted reviews → the knowledge with their corrections, and what each of them changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeVar

from pydantic import BaseModel

from kernelkb.errors import KnowledgeError, Problem
from kernelkb.loading.located import locate_problem
from kernelkb.loading.references import LoadedFile
from kernelkb.model.bottleneck import Bottleneck
from kernelkb.model.condition import All
from kernelkb.model.condition import Any as Either
from kernelkb.model.fix import Fix
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.metric import Metric
from kernelkb.model.pattern import Pattern
from kernelkb.model.review import (
    AcceptedReview,
    ConditionChange,
    Correction,
    FixChange,
    KnowledgeChange,
    PatternChange,
    ThresholdChange,
    WhenNotChange,
)
from kernelkb.model.threshold import Source, Threshold

M = TypeVar("M", bound=BaseModel)


def apply_reviews(knowledge: Knowledge, files: list[LoadedFile]) -> Knowledge:
    """Return the knowledge with the corrections of every accepted review, the oldest first.

    Raises:
        KnowledgeError: A correction asks for something that cannot be done; names its place.
    """
    accepted = [(f, f.record) for f in files if isinstance(f.record, AcceptedReview)]
    if not accepted:
        return knowledge
    accepted.sort(key=lambda one: (one[1].date, one[1].session))
    edition = _KnowledgeEditor(knowledge)
    problems: list[Problem] = []
    for file, review in accepted:
        edition.sources.append(_build_source(review))
        for position, change in enumerate(review.corrections):
            try:
                edition.apply_correction(review, change)
            except _CorrectionError as refused:
                loc = ("corrections", position, refused.key)
                problems.append(locate_problem(file.display_path, file.marks, loc, str(refused)))
    if problems:
        raise KnowledgeError(problems)
    return edition.build_knowledge(tuple(review for _, review in accepted))


def make_review_source_id(session: str) -> str:
    """Return the id under which the bibliography names a session's review."""
    words = "-".join(re.findall("[a-z0-9]+", session))
    if words == session and len(words) <= 50:
        return f"review-{words}"
    mark = blake2b(session.encode(), digest_size=4).hexdigest()  # two sessions, two sources
    return f"review-{words[:40].strip('-')}-{mark}"


def _build_source(review: AcceptedReview) -> Source:
    title = f"Review of session {review.session} by {review.reviewer}"
    return Source(id=make_review_source_id(review.session), title=title, read=review.date)


class _CorrectionError(Exception):
    def __init__(self, key: str, text: str) -> None:
        self.key = key
        super().__init__(text)


class _KnowledgeEditor:
    """The entries that corrections can change, while they are changed."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._before = knowledge
        self._metrics: dict[str, Metric] = {m.id: m for m in knowledge.catalogue.metrics}
        self._thresholds = {t.id: t for t in knowledge.thresholds.thresholds}
        self._bottlenecks = {b.id: b for b in knowledge.bottlenecks}
        self._fixes = {f.id: f for family in knowledge.families for f in family.fixes}
        self._patterns: list[Pattern] = list(knowledge.patterns)
        self._overridden = dict(knowledge.overridden)
        self._changed: list[KnowledgeChange] = []
        self.sources: list[Source] = list(knowledge.bibliography.sources)

    def apply_correction(self, review: AcceptedReview, change: Correction) -> None:
        """Do one correction and note what it did."""
        match change:
            case ThresholdChange():
                done = self._change_threshold(review, change)
            case ConditionChange():
                done = self._change_condition(change)
            case FixChange():
                done = self._change_fix_order(change)
            case WhenNotChange():
                done = self._add_when_not(review, change)
            case PatternChange():
                done = self._add_pattern(review, change)
        by = {"session": review.session, "reviewer": review.reviewer, "date": review.date}
        names = ("kind", "id", "field", "was", "now")
        said = dict(zip(names, done, strict=True))
        self._changed.append(KnowledgeChange.model_validate({**said, **by, "why": change.why}))

    def build_knowledge(self, reviews: tuple[AcceptedReview, ...]) -> Knowledge:
        """Return the whole of it."""
        old = self._before
        return old.model_copy(
            update={
                "thresholds": _copy_with_lists(
                    old.thresholds, thresholds=self._thresholds.values()
                ),
                "bottlenecks": tuple(self._bottlenecks.values()),
                "families": tuple(
                    _copy_with_lists(family, fixes=[self._fixes[fix.id] for fix in family.fixes])
                    for family in old.families
                ),
                "patterns": tuple(self._patterns),
                "bibliography": _copy_with_lists(old.bibliography, sources=self.sources),
                "overridden": self._overridden,
                "reviews": reviews,
                "changed": tuple(self._changed),
            }
        )

    def _change_threshold(self, review: AcceptedReview, change: ThresholdChange) -> tuple[Any, ...]:
        old: Threshold = self._thresholds[change.threshold]
        low, high = self._metrics[old.metric].range
        if change.value < low or (high is not None and change.value > high):
            until = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
            raise _CorrectionError("value", f"{old.metric} is {until}, never {change.value:g}")
        update: dict[str, Any] = {
            "sources": _append_unique(old.sources, make_review_source_id(review.session))
        }
        if change.device is None:
            was, field = old.value, "value"
            update |= {"value": change.value, "evidence": "judgement", "why": change.why}
            self._overridden.setdefault(old.id, was)
        else:
            was, field = old.by_device.get(change.device, old.value), f"value.{change.device}"
            update["by_device"] = {**old.by_device, change.device: change.value}
        self._thresholds[old.id] = old.model_copy(update=update)
        return "threshold", old.id, field, was, change.value

    def _change_condition(self, change: ConditionChange) -> tuple[Any, ...]:
        old: Bottleneck = self._bottlenecks[change.bottleneck]
        when: All | Either
        if change.only_if is not None:
            parts = old.when.all if isinstance(old.when, All) else (old.when,)
            when = All(all=(*parts, change.added_condition))
        else:
            parts = old.when.any if isinstance(old.when, Either) else (old.when,)
            when = Either(any=(*parts, change.added_condition))
        self._bottlenecks[old.id] = old.model_copy(update={"when": when})
        return "bottleneck", old.id, "when", old.when, when

    def _change_fix_order(self, change: FixChange) -> tuple[Any, ...]:
        old: Bottleneck = self._bottlenecks[change.bottleneck]
        fix: Fix = self._fixes[change.fix]
        if old.target not in fix.targets:
            raise _CorrectionError(
                "fix", f"{fix.id} is no fix on {old.target}, where {old.id} is found"
            )
        order = _reorder_fixes(old, change)
        self._bottlenecks[old.id] = old.model_copy(update={"fixes": order})
        return "bottleneck", old.id, "fixes", old.fixes, order

    def _add_when_not(self, review: AcceptedReview, change: WhenNotChange) -> tuple[Any, ...]:
        old: Fix = self._fixes[change.fix]
        text = f"{old.when_not}; {change.when_not}" if old.when_not else change.when_not
        sources = _append_unique(old.sources, make_review_source_id(review.session))
        self._fixes[old.id] = old.model_copy(update={"when_not": text, "sources": sources})
        return "fix", old.id, "when_not", old.when_not, text

    def _add_pattern(self, review: AcceptedReview, change: PatternChange) -> tuple[Any, ...]:
        said = change.model_dump(exclude={"change", "candidate", "why"})
        self._patterns.append(Pattern(**said, sources=(make_review_source_id(review.session),)))
        return "pattern", change.id, "practice", None, change.practice


def _reorder_fixes(bottleneck: Bottleneck, change: FixChange) -> tuple[str, ...]:
    order = [fix for fix in bottleneck.fixes if fix != change.fix]
    place = bottleneck.fixes.index(change.fix) if len(order) < len(bottleneck.fixes) else None
    if change.move == "first":
        return (change.fix, *order)
    if change.move == "last":
        return (*order, change.fix)
    if place is None:
        offered = ", ".join(bottleneck.fixes)
        cure = f"move it first or last to add it (offered: {offered})"
        raise _CorrectionError("fix", f"{bottleneck.id} does not offer {change.fix}; {cure}")
    if change.move == "withdraw":
        if not order:
            raise _CorrectionError(
                "fix", f"{bottleneck.id} would be left without a fix; add another first"
            )
        return tuple(order)
    order.insert(max(0, place - 1) if change.move == "up" else place + 1, change.fix)
    return tuple(order)


def _copy_with_lists(record: M, **lists: Iterable[Any]) -> M:
    return record.model_copy(update={name: tuple(items) for name, items in lists.items()})


def _append_unique(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)
