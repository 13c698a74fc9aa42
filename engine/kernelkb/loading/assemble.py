"""Joins loaded files into one knowledge base: the shipped entries first, then the project's.

Corrections of accepted reviews follow in ``kernelkb.loading.reviews``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from kernelkb.loading.references import LoadedFile
from kernelkb.model.entries.bottleneck import Bottleneck, GuardCatalogue
from kernelkb.model.entries.device import DeviceCatalogue
from kernelkb.model.entries.effect import EffectCatalogue, LibraryCatalogue
from kernelkb.model.entries.fix import FixFamily
from kernelkb.model.entries.knowledge import Knowledge, SearchTerms
from kernelkb.model.entries.learned import LearnedCatalogue, LearnedFix, MeasuredCatalogue
from kernelkb.model.entries.metric import MetricCatalogue
from kernelkb.model.entries.review import AcceptedReview
from kernelkb.model.entries.symptom import SymptomFamily
from kernelkb.model.entries.threshold import (
    Bibliography,
    Calibration,
    Threshold,
    ThresholdCatalogue,
)
from kernelkb.model.entries.tree import Tree
from kernelkb.model.entries.workflow import Pattern, Workflow

M = TypeVar("M", bound=BaseModel)

SINGLE_FILES: dict[str, type[BaseModel]] = {
    "metrics.yaml": MetricCatalogue,
    "devices.yaml": DeviceCatalogue,
    "thresholds.yaml": ThresholdCatalogue,
    "guards.yaml": GuardCatalogue,
    "calibration.yaml": Calibration,
    "effects.yaml": EffectCatalogue,
    "libraries.yaml": LibraryCatalogue,
    "measured.yaml": MeasuredCatalogue,
    "learned.yaml": LearnedCatalogue,
    "search.yaml": SearchTerms,
    "sources.yaml": Bibliography,
    "workflow.yaml": Workflow,
}
RECORD_FOLDERS: dict[str, type[BaseModel]] = {
    "bottlenecks": Bottleneck,
    "fixes": FixFamily,
    "trees": Tree,
    "symptoms": SymptomFamily,
    "patterns": Pattern,
    "reviews": AcceptedReview,
}
OPTIONAL_FILES = frozenset({"learned.yaml", "measured.yaml", "search.yaml"})
"""Single files that a knowledge folder need not have."""
GATE_FILE = "trees/performance-gate.yaml"
"""Also required: every recommendation starts with this tree."""


def assemble(files: list[LoadedFile], sha256: str, overlay: Path | None) -> Knowledge:
    """Return the knowledge base of files that have no problems.

    Args:
        files: The shipped files, then the project's.
        sha256: Digest of their paths and contents.
        overlay: The project's knowledge folder; None if it has none.
    """
    thresholds, overridden = _merge_thresholds(files)
    own = [file.record for file in files if file.own]
    return Knowledge.model_construct(
        catalogue=_join_lists(files, MetricCatalogue),
        devices=_join_lists(files, DeviceCatalogue),
        thresholds=thresholds,
        guards=_join_lists(files, GuardCatalogue),
        calibration=_select_records(files, Calibration)[-1],
        bibliography=_join_lists(files, Bibliography),
        effects=_join_lists(files, EffectCatalogue),
        libraries=_join_lists(files, LibraryCatalogue),
        bottlenecks=tuple(_select_records(files, Bottleneck)),
        families=tuple(_select_records(files, FixFamily)),
        trees=tuple(_select_records(files, Tree)),
        symptoms=tuple(_select_records(files, SymptomFamily)),
        patterns=tuple(_select_records(files, Pattern)),
        measured=_join_measured(files),
        workflow=_join_lists(files, Workflow),
        search_terms=_join_search_terms(files),
        learned=_merge_learned(_select_records(files, LearnedCatalogue)),
        sha256=sha256,
        overlay=str(overlay) if overlay else None,
        own=frozenset(_list_entry_ids(own)),
        overridden=overridden,
    )


def _join_measured(files: list[LoadedFile]) -> MeasuredCatalogue:
    found = _select_records(files, MeasuredCatalogue)
    return MeasuredCatalogue(cases=tuple(case for one in found for case in one.cases))


def _join_search_terms(files: list[LoadedFile]) -> SearchTerms:
    found = _select_records(files, SearchTerms)
    return _join_lists(files, SearchTerms) if found else SearchTerms()


def _select_records(files: list[LoadedFile], model: type[M]) -> list[M]:
    return [file.record for file in files if isinstance(file.record, model)]


def _join_lists(files: list[LoadedFile], model: type[M]) -> M:
    """Return one record whose lists hold the entries of all files, the shipped file's first."""
    first, *rest = _select_records(files, model)
    lists: dict[str, Any] = {
        name: (*value, *(item for record in rest for item in getattr(record, name)))
        for name, value in first
        if isinstance(value, tuple)
    }
    return first.model_copy(update=lists)


def _merge_thresholds(files: list[LoadedFile]) -> tuple[ThresholdCatalogue, dict[str, float]]:
    """Return the thresholds, the project's instead of shipped ones, and the replaced values."""
    catalogue = _join_lists(files, ThresholdCatalogue)
    last: dict[str, Threshold] = {}
    overridden: dict[str, float] = {}
    for threshold in catalogue.thresholds:
        if threshold.id in last:
            overridden[threshold.id] = last[threshold.id].value
        last[threshold.id] = threshold
    return ThresholdCatalogue.model_construct(thresholds=tuple(last.values())), overridden


def _merge_learned(catalogues: list[LearnedCatalogue]) -> LearnedCatalogue:
    """Return all learned rows; the project's row replaces a shipped one where it has cases."""
    fixes: dict[tuple[str, str, str], LearnedFix] = {}
    for row in (row for catalogue in catalogues for row in catalogue.fixes):
        key = (row.architecture, row.bottleneck, row.fix)
        if row.count or key not in fixes:  # a row without a measured case has no share
            fixes[key] = row
    phases = {row.phase: row for catalogue in catalogues for row in catalogue.phases}
    return LearnedCatalogue(
        fixes=tuple(fixes.values()),
        phases=tuple(phases.values()),
        sessions=tuple(name for catalogue in catalogues for name in catalogue.sessions),
        forgotten=tuple(name for catalogue in catalogues for name in catalogue.forgotten),
    )


def _list_entry_ids(records: list[BaseModel]) -> list[str]:
    ids: list[str] = []
    for record in records:
        if isinstance(record, Bottleneck):
            ids.append(record.id)
        if isinstance(record, GuardCatalogue):
            ids += [guard.id for guard in record.guards]
    return ids
