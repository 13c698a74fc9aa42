"""The whole knowledge base, loaded and with every reference resolved."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record
from kernelkb.model.bottleneck import Bottleneck, GuardCatalogue
from kernelkb.model.device import DeviceCatalogue
from kernelkb.model.fix import FixFamily
from kernelkb.model.learned import LearnedCatalogue
from kernelkb.model.metric import MetricCatalogue
from kernelkb.model.pattern import Pattern
from kernelkb.model.review import AcceptedReview, KnowledgeChange
from kernelkb.model.symptom import SymptomFamily
from kernelkb.model.threshold import Bibliography, Calibration, ThresholdCatalogue
from kernelkb.model.tree import Tree
from kernelkb.model.workflow import Workflow


class Knowledge(Record):
    """What the YAML files say, file by file."""

    catalogue: MetricCatalogue
    devices: DeviceCatalogue
    thresholds: ThresholdCatalogue
    guards: GuardCatalogue
    calibration: Calibration
    bibliography: Bibliography
    bottlenecks: tuple[Bottleneck, ...]
    families: tuple[FixFamily, ...]
    trees: tuple[Tree, ...]
    symptoms: tuple[SymptomFamily, ...]
    patterns: tuple[Pattern, ...]
    workflow: Workflow
    learned: LearnedCatalogue = LearnedCatalogue()
    """What sessions taught; empty before there were any."""
    sha256: str
    """Of every file's path and bytes: two equal digests are the same knowledge."""
    overlay: str | None = None
    """The project's own knowledge folder, when there is one."""
    own: frozenset[str] = frozenset()
    """Ids of the bottlenecks and guards that the project added."""
    overridden: dict[str, float] = Field(default_factory=dict)
    """For each threshold that the project overrides the value that was shipped."""
    reviews: tuple[AcceptedReview, ...] = ()
    """Those whose corrections are part of it, in the order in which they came in."""
    changed: tuple[KnowledgeChange, ...] = ()
    """Every correction of theirs, in the same order."""
