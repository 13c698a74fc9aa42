"""Defines the record of the whole knowledge base, loaded and with every reference resolved."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Record
from kernelkb.model.entries.bottleneck import Bottleneck, GuardCatalogue, SymptomFamily
from kernelkb.model.entries.fix import EffectCatalogue, FixFamily, LibraryCatalogue
from kernelkb.model.entries.learned import (
    AcceptedReview,
    KnowledgeChange,
    LearnedCatalogue,
    MeasuredCatalogue,
)
from kernelkb.model.entries.quantities import (
    Bibliography,
    Calibration,
    DeviceCatalogue,
    MetricCatalogue,
    ThresholdCatalogue,
)
from kernelkb.model.entries.workflow import Pattern, Tree, Workflow


class OtherNames(Record):
    """Other names of one entry."""

    id: str
    """Of an entry of any kind, or of a command: ``kb bench``."""
    also: tuple[str, ...] = Field(min_length=1)
    """Words, phrases, names of functions and instructions, as people type them."""


class WordGroup(Record):
    """Words that say the same of what a question is about."""

    id: str
    words: tuple[str, ...] = Field(min_length=1)


class UsualCauses(Record):
    """The usual causes of an effect that people complain of, and the words that name it."""

    said: tuple[str, ...] = Field(min_length=1)
    """Groups or lists of words: a question holds a word of each."""
    unsaid: tuple[str, ...] = ()
    """Such of which it holds none."""
    causes: tuple[str, ...] = Field(min_length=1)
    """Ids of entries, the likeliest first."""
    firm: bool = False
    """Whether they stay among the first, whatever else the question says."""


class SearchTerms(Record):
    """The file ``search.yaml``."""

    synonyms: tuple[tuple[str, ...], ...] = ()
    """Groups of words and phrases that mean the same in every entry."""
    field: tuple[str, ...] = ()
    """Words that only questions of this field hold: a part of such a question is enough to fit."""
    general: tuple[str, ...] = ()
    """Words that nearly every question of this field holds, so that they choose no entry."""
    speed: tuple[str, ...] = ()
    """Words of a question about a slow program, which a failure does not answer."""
    failure: tuple[str, ...] = ()
    """Words of a question about a program that fails."""
    product: tuple[str, ...] = ()
    """Names of products: an entry named by one does not answer a question that names none."""
    resource: tuple[str, ...] = ()
    """Words for how much of a GPU is used."""
    part: tuple[str, ...] = ()
    """Words that say it is used in part: a bottleneck of ``full`` is then the opposite."""
    full: tuple[str, ...] = ()
    """Words that say it is used in full."""
    outside: tuple[str, ...] = ()
    """Words of other fields and of other makers' GPUs: what is asked about them fits nothing."""
    groups: tuple[WordGroup, ...] = ()
    """Further lists of words, for ``usual_causes``."""
    usual_causes: tuple[UsualCauses, ...] = ()
    """Entries that answer a question whose other words name none."""
    entries: tuple[OtherNames, ...] = ()

    def get_word_lists(self) -> dict[str, tuple[str, ...]]:
        """Return the lists of words by the names of their fields, and the groups by their ids."""
        other = ("synonyms", "groups", "usual_causes", "entries")
        lists = {name: getattr(self, name) for name in type(self).model_fields if name not in other}
        return lists | {group.id: group.words for group in self.groups}


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

    @property
    def threshold_values(self) -> dict[str, float]:
        """Value of each threshold, by id, where no device has another one."""
        return {threshold.id: threshold.value for threshold in self.thresholds.thresholds}
