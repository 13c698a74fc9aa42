"""Second phase of loading: finds dangling references, duplicate ids and misnamed files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from kernelkb.errors import Problem, did_you_mean
from kernelkb.loading.located import Loc, Marks, locate_problem
from kernelkb.model.entries.bottleneck import Bottleneck
from kernelkb.model.entries.fix import EffectCatalogue
from kernelkb.model.entries.learned import AcceptedReview, PatternChange
from kernelkb.model.entries.quantities import (
    Bibliography,
    DeviceCatalogue,
    Threshold,
    list_quantities,
)
from kernelkb.model.entries.workflow import Pattern, Tree

DEVICE_FACTS = (
    "cc",
    "sm_count",
    "sm_clock_mhz",
    "l2_bytes",
    "dram_gbps",
    "achievable_dram_share",
    "fp32_tflops",
    "fp16_tensor_tflops",
    "fp64_tflops",
    "peak_tflops",
    "ridge_fp32",
    "tensor_flop_us",
    "dram_bytes_us",
    "max_threads_sm",
    "max_blocks_sm",
    "fewest_sm_count",
)
"""Facts that a condition may name as ``device.<fact>``."""


class LoadedFile(NamedTuple):
    """A validated file: its record, and the position of each value."""

    path: str
    """Relative to the knowledge folder, with forward slashes."""
    display_path: str
    """The path as problems print it."""
    record: BaseModel
    marks: Marks
    own: bool = False
    """Whether it belongs to the project's overlay."""


class _Reference(NamedTuple):
    file: LoadedFile
    loc: Loc
    kind: str
    name: str


def find_reference_problems(files: list[LoadedFile]) -> list[Problem]:
    """Return every dangling reference, misnamed file and duplicate id of files that validate."""
    problems = [
        *_find_dangling_references(files),
        *_find_misnamed_files(files),
        *_find_duplicate_ids(files),
    ]
    for file in files:
        if isinstance(file.record, Tree):
            problems += _find_unknown_branches(file, file.record)
    return problems


def _collect_names(files: list[LoadedFile]) -> dict[str, set[str]]:
    """Return every name that a reference may have, by kind."""
    names = {"device fact": {f"device.{fact}" for fact in DEVICE_FACTS}}
    for file in files:
        for kind, _, entry in _iter_entries(file):
            names.setdefault(kind, set()).add(entry.id)  # type: ignore[attr-defined]  # as below
        if isinstance(file.record, DeviceCatalogue):
            architectures = (one.cc for one in file.record.architectures)
            names.setdefault("architecture", set()).update(architectures)
    return names


def _find_dangling_references(files: list[LoadedFile]) -> Iterator[Problem]:
    names = _collect_names(files)
    for reference in (r for file in files for r in _iter_references(file)):
        file, loc, kind, name = reference
        if kind == "quantity":
            kind = "device fact" if name.startswith("device.") else "metric"
        if name not in names.get(kind, set()):
            yield _report_unknown(file, loc, kind, name, names.get(kind, set()))


def _iter_references(file: LoadedFile) -> Iterator[_Reference]:
    """Yield every field value of a file that is a name of an entry."""

    def walk(value: object, loc: Loc) -> Iterator[_Reference]:
        if isinstance(value, BaseModel):
            kinds = _REFERENCE_FIELDS.get(type(value).__name__, {})
            for name, field in type(value).model_fields.items():
                key = (*loc, field.alias or name)
                inner = getattr(value, name)
                if name in kinds or name == "sources":
                    yield from leaves(inner, key, kinds.get(name, "source"))
                if not (name == "sources" and isinstance(value, Bibliography)):
                    yield from walk(inner, key)
        elif isinstance(value, tuple):
            for position, item in enumerate(value):
                yield from walk(item, (*loc, position))

    def leaves(value: object, loc: Loc, kind: str) -> Iterator[_Reference]:
        if isinstance(value, str) and kind == "formula":
            for name in list_quantities(value):
                yield _Reference(file, loc, "quantity", name)
        elif isinstance(value, str):
            yield _Reference(file, loc, kind, value)
        elif isinstance(value, tuple):
            for position, item in enumerate(value):
                yield from leaves(item, (*loc, position), kind)
        elif isinstance(value, dict):
            of, _, keys = kind.partition(" ")
            for key, item in value.items():
                yield from leaves(key if keys else item, (*loc, key), of)

    return walk(file.record, ())


_EFFECT_FORMULAS = ("work", "add", "waits", "latency", "fill", "warps", "time")
_REFERENCE_FIELDS: dict[str, dict[str, str]] = {
    "Metric": {"recipe": "recipe", "derive": "formula"},
    "Recipe": {"includes": "recipe"},
    "Device": {"cc": "architecture"},
    "Threshold": {"metric": "metric", "by_device": "device keys"},
    "Comparison": {"metric": "quantity", "value": "quantity", "threshold": "threshold"},
    "LookAlike": {"bottleneck": "bottleneck"},
    "Bottleneck": {"fixes": "fix", "symptom_of": "bottleneck"},
    "Fix": {"effects": "effect", "patterns": "pattern"},
    "Resource": {"use": "metric", "peak": "quantity"},
    "Wait": {"metric": "metric"},
    "TimeModel": dict.fromkeys(("fill", "warps", "duration", "empty_kernel", "clock"), "metric"),
    "Effect": {"parts": "effect", **dict.fromkeys(_EFFECT_FORMULAS, "formula")},
    "Falsifier": {"metric": "metric", "value": "quantity"},
    "Case": {"metrics": "quantity keys"},
    "TreeCase": {"metrics": "quantity keys"},
    "Claim": {"needs": "metric"},
    "MeasuredCase": {"fix": "fix", "bottleneck": "bottleneck", "device": "device"},
    "LearnedFix": {"fix": "fix", "bottleneck": "bottleneck"},
    "Symptom": dict.fromkeys(("unless", "consequence_of"), "symptom")
    | {"fixes": "fix", "pattern": "pattern"},
    "Pattern": {"refines": "pattern", "bottlenecks": "bottleneck"},
    "Conflict": {"pattern": "pattern"},
    "WorkflowGate": {"tree": "tree", "patterns": "pattern"},
    "Precheck": {"patterns": "pattern"},
    "LeadsTo": {
        "bottlenecks": "bottleneck",
        "symptoms": "symptom",
        "patterns": "pattern",
        "metrics": "metric",
        "fixes": "fix",
    },
    "Guard": {"bottlenecks": "bottleneck", "except_": "bottleneck", "fixes": "fix"},
    "ThresholdChange": {"threshold": "threshold", "device": "device"},
    "ConditionChange": {"bottleneck": "bottleneck"},
    "FixChange": {"bottleneck": "bottleneck", "fix": "fix"},
    "WhenNotChange": {"fix": "fix"},
    "PatternChange": {"refines": "pattern", "bottlenecks": "bottleneck"},
}
"""Kind of entry that each field names, by record class; ``keys``: the field's keys name it."""


def _find_misnamed_files(files: list[LoadedFile]) -> Iterator[Problem]:
    for file in files:
        stem = Path(file.path).stem
        key = next((k for k in ("id", "family", "session") if hasattr(file.record, k)), "")
        name = getattr(file.record, key) if key else stem
        if name != stem:
            text = f"{name!r} must equal the file's name, {stem!r}"
            yield locate_problem(file.display_path, file.marks, (key,), text)
        if isinstance(file.record, Bottleneck):
            folder = Path(file.path).parent.name
            if folder != file.record.group:
                text = f"group {file.record.group!r} belongs in bottlenecks/{file.record.group}/"
                yield locate_problem(file.display_path, file.marks, ("group",), text)


def _find_duplicate_ids(files: list[LoadedFile]) -> Iterator[Problem]:
    defined: dict[tuple[str, str], tuple[LoadedFile, BaseModel]] = {}
    for file in files:
        for kind, loc, entry in _iter_entries(file):
            name = str(entry.id)  # type: ignore[attr-defined]  # every entry of _LISTS has one
            if (kind, name) not in defined:
                defined[kind, name] = file, entry
                continue
            first, before = defined[kind, name]
            if file.own and not first.own:
                text = _explain_forbidden_override(kind, name, before, entry)
            else:
                text = f"{kind} {name!r} is defined twice, see {first.display_path}"
            if text:
                yield locate_problem(file.display_path, file.marks, loc, text)


def _explain_forbidden_override(
    kind: str, name: str, before: BaseModel, entry: BaseModel
) -> str | None:
    """Return why a project's entry may not replace a shipped one; None if it may."""
    if isinstance(before, Threshold) and isinstance(entry, Threshold):
        if before.metric == entry.metric:
            return None
        return f"threshold {name!r} limits {before.metric}; an override cannot limit {entry.metric}"
    return (
        f"{kind} {name!r} is shipped, and a project can override thresholds only; "
        "give this entry another id"
    )


def _iter_entries(file: LoadedFile) -> Iterator[tuple[str, Loc, BaseModel]]:
    for kind, field in _ENTRY_LISTS:
        items = getattr(file.record, field, ())
        if isinstance(items, tuple) and items and hasattr(items[0], "id"):
            for position, item in enumerate(items):
                yield kind, (field, position), item
    for kind, model in (("bottleneck", Bottleneck), ("tree", Tree), ("pattern", Pattern)):
        if isinstance(file.record, model):
            yield kind, ("id",), file.record
    if isinstance(file.record, AcceptedReview):
        for position, change in enumerate(file.record.corrections):
            if isinstance(change, PatternChange):
                yield "pattern", ("corrections", position, "id"), change


_ENTRY_LISTS = (
    ("metric", "metrics"),
    ("recipe", "recipes"),
    ("device", "devices"),
    ("threshold", "thresholds"),
    ("guard", "guards"),
    ("source", "sources"),
    ("effect", "effects"),
    ("library", "libraries"),
    ("fix", "fixes"),
    ("symptom", "symptoms"),
    ("phase", "phases"),
)


def _find_unknown_branches(file: LoadedFile, tree: Tree) -> Iterator[Problem]:
    nodes: set[str] = set()
    for field in ("questions", "leaves"):
        for position, node in enumerate(getattr(tree, field)):
            if node.id in nodes:
                text = f"node {node.id!r} is defined twice"
                yield locate_problem(file.display_path, file.marks, (field, position, "id"), text)
            nodes.add(node.id)
    goals: list[tuple[Loc, str]] = [(("root",), tree.root)]
    for position, question in enumerate(tree.questions):
        goals += [
            (("questions", position, branch), getattr(question, branch))
            for branch in ("then", "otherwise", "unknown")
        ]
    for loc, name in goals:
        if name not in nodes:
            yield _report_unknown(file, loc, "node", name, nodes)


def find_unknown_resources(files: list[LoadedFile]) -> Iterator[Problem]:
    """Yield a problem for each effect that names no resource, or no reason to wait."""
    catalogues = [(f, f.record) for f in files if isinstance(f.record, EffectCatalogue)]
    models = [record.model for _, record in catalogues if record.model]
    resources = {r.id for model in models for r in model.resources}
    work = resources | {n for m in models for r in m.resources for n in (r.unit, r.group)}
    waits = {wait.id for model in models for wait in model.waits}
    for file, record in catalogues:
        for index, wait in enumerate(record.model.waits if record.model else ()):
            if wait.follows not in (None, "others", *resources):
                loc: Loc = ("model", "waits", index, "follows")
                yield _report_unknown(file, loc, "resource", wait.follows or "", resources)
        for index, effect in enumerate(record.effects):
            for field, names, known in (
                ("work", effect.work, work),
                ("add", effect.add, work),
                ("waits", effect.waits, waits),
            ):
                kind = "reason to wait" if field == "waits" else "resource"
                for name in names:
                    if name not in known:
                        yield _report_unknown(
                            file, ("effects", index, field, name), kind, name, known
                        )


def _report_unknown(file: LoadedFile, loc: Loc, kind: str, name: str, known: set[str]) -> Problem:
    text = f"unknown {kind} {name!r}{did_you_mean(name, known)}"
    return locate_problem(file.display_path, file.marks, loc, text)
