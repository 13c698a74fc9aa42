"""Defines the record of the whole knowledge base, loaded and with every reference resolved."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record
from kernelkb.model.entries.bottleneck import Bottleneck, GuardCatalogue
from kernelkb.model.entries.device import DeviceCatalogue
from kernelkb.model.entries.effect import EffectCatalogue
from kernelkb.model.entries.fix import FixFamily
from kernelkb.model.entries.learned import LearnedCatalogue
from kernelkb.model.entries.library import LibraryCatalogue
from kernelkb.model.entries.measured import MeasuredCatalogue
from kernelkb.model.entries.metric import MetricCatalogue
from kernelkb.model.entries.pattern import Pattern
from kernelkb.model.entries.review import AcceptedReview, KnowledgeChange
from kernelkb.model.entries.search_terms import SearchTerms
from kernelkb.model.entries.symptom import SymptomFamily
from kernelkb.model.entries.threshold import Bibliography, Calibration, ThresholdCatalogue
from kernelkb.model.entries.tree import Tree
from kernelkb.model.entries.workflow import Workflow


class Knowledge(Record):
    """The records of all knowledge files."""

    catalogue: MetricCatalogue
    devices: DeviceCatalogue
    thresholds: ThresholdCatalogue
    guards: GuardCatalogue
    calibration: Calibration
    bibliography: Bibliography
    bottlenecks: tuple[Bottleneck, ...]
    effects: EffectCatalogue
    libraries: LibraryCatalogue = LibraryCatalogue()
    families: tuple[FixFamily, ...]
    trees: tuple[Tree, ...]
    symptoms: tuple[SymptomFamily, ...]
    patterns: tuple[Pattern, ...]
    workflow: Workflow
    measured: MeasuredCatalogue = MeasuredCatalogue()
    """What changes gave in the zoo; empty without measured.yaml."""
    learned: LearnedCatalogue = LearnedCatalogue()
    """Calibrations from recorded sessions; empty without learned.yaml."""
    search_terms: SearchTerms = SearchTerms()
    """Words by which people look for entries; empty without search.yaml."""
    sha256: str
    """Digest of every file's path and content."""
    overlay: str | None = None
    """Path of the project's knowledge folder; None without one."""
    own: frozenset[str] = frozenset()
    """Ids of the bottlenecks and guards that the project added."""
    overridden: dict[str, float] = Field(default_factory=dict)
    """Shipped value of each threshold that the project overrides, by id."""
    reviews: tuple[AcceptedReview, ...] = ()
    """Accepted reviews, whose corrections are applied, in the order of acceptance."""
    changed: tuple[KnowledgeChange, ...] = ()
    """Every applied correction, in the same order."""
