"""Second phase of loading: does everything that is named exist, once, under its own name?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from engine.errors import Problem, did_you_mean
from engine.loading.located import Loc, Marks, at
from engine.model.bottleneck import Bottleneck
from engine.model.device import DeviceCatalogue
from engine.model.fix import FixFamily
from engine.model.metric import MetricCatalogue
from engine.model.threshold import Bibliography, ThresholdCatalogue
from engine.model.tree import Tree

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
)
"""What ``device.<fact>`` may name in a condition."""


class LoadedFile(NamedTuple):
    """A file that holds a record, and where each part of it stands."""

    path: str
    """Relative to the knowledge folder, with forward slashes."""
    shown: str
    """As complaints print it."""
    record: BaseModel
    marks: Marks


class _Reference(NamedTuple):
    file: LoadedFile
    loc: Loc
    kind: str
    name: str


def complaints(files: list[LoadedFile]) -> list[Problem]:
    """Return every dangling reference, misnamed file and repeated id of files that loaded."""
    found = [*_dangling(files), *_misnamed(files), *_repeated(files)]
    for file in files:
        if isinstance(file.record, Tree):
            found += _lost_branches(file, file.record)
    return found


def _names(files: list[LoadedFile]) -> dict[str, set[str]]:
    """Collect what can be referred to, by kind."""
    names: dict[str, set[str]] = {"device fact": {f"device.{fact}" for fact in DEVICE_FACTS}}

    def add(kind: str, ids: Iterable[str]) -> None:
        names.setdefault(kind, set()).update(ids)

    for file in files:
        match file.record:
            case MetricCatalogue() as record:
                add("metric", (m.id for m in record.metrics))
                add("recipe", (r.id for r in record.recipes))
            case DeviceCatalogue() as record:
                add("device", (d.id for d in record.devices))
                add("architecture", (a.cc for a in record.architectures))
            case ThresholdCatalogue() as record:
                add("threshold", (t.id for t in record.thresholds))
            case Bibliography() as record:
                add("source", (s.id for s in record.sources))
            case Bottleneck() as record:
                add("bottleneck", (record.id,))
            case FixFamily() as record:
                add("fix", (f.id for f in record.fixes))
            case _:
                pass
    return names


def _dangling(files: list[LoadedFile]) -> Iterator[Problem]:
    known = _names(files)
    for reference in (r for file in files for r in _references(file)):
        file, loc, kind, name = reference
        if kind == "quantity":
            kind = "device fact" if name.startswith("device.") else "metric"
        if name not in known.get(kind, set()):
            near = did_you_mean(name, known.get(kind, set()))
            yield at(file.shown, file.marks, loc, f"unknown {kind} {name!r}{near}")


def _references(file: LoadedFile) -> Iterator[_Reference]:
    """Yield everything in one file that names something in another."""

    def walk(value: object, loc: Loc) -> Iterator[_Reference]:
        if isinstance(value, BaseModel):
            kinds = _KINDS.get(type(value).__name__, {})
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
        if isinstance(value, str):
            yield _Reference(file, loc, kind, value)
        elif isinstance(value, tuple):
            for position, item in enumerate(value):
                yield from leaves(item, (*loc, position), kind)
        elif isinstance(value, dict):
            keys = kind == "quantity keys"
            for key, item in value.items():
                yield from leaves(key if keys else item, (*loc, key), "quantity")

    return walk(file.record, ())


_KINDS: dict[str, dict[str, str]] = {
    "Metric": {"recipe": "recipe"},
    "Recipe": {"includes": "recipe"},
    "Derivation": {"of": "quantity"},
    "Device": {"cc": "architecture"},
    "Threshold": {"metric": "metric", "device": "device"},
    "Comparison": {"metric": "quantity", "value": "quantity", "threshold": "threshold"},
    "LookAlike": {"bottleneck": "bottleneck"},
    "Bottleneck": {"fixes": "fix"},
    "Estimate": {"inputs": "quantity"},
    "Falsifier": {"metric": "metric", "value": "quantity"},
    "Case": {"metrics": "quantity keys"},
    "Claim": {"needs": "metric"},
    "Guard": {"bottlenecks": "bottleneck", "except_": "bottleneck", "fixes": "fix"},
}
"""Which fields of which record hold names of what."""


def _misnamed(files: list[LoadedFile]) -> Iterator[Problem]:
    for file in files:
        stem = Path(file.path).stem
        name = getattr(file.record, "id", getattr(file.record, "family", stem))
        if name != stem:
            key = "id" if hasattr(file.record, "id") else "family"
            text = f"{name!r} must equal the file's name, {stem!r}"
            yield at(file.shown, file.marks, (key,), text)
        if isinstance(file.record, Bottleneck):
            folder = Path(file.path).parent.name
            if folder != file.record.group:
                text = f"group {file.record.group!r} belongs in bottlenecks/{file.record.group}/"
                yield at(file.shown, file.marks, ("group",), text)


def _repeated(files: list[LoadedFile]) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}

    def one(kind: str, name: str, file: LoadedFile, loc: Loc) -> Iterator[Problem]:
        first = seen.setdefault((kind, name), file.shown)
        if first != file.shown or loc in repeated:
            yield at(file.shown, file.marks, loc, f"{kind} {name!r} is defined twice, see {first}")

    for file in files:
        repeated: set[Loc] = set()
        for kind, field in _LISTS:
            items = getattr(file.record, field, ())
            if not (isinstance(items, tuple) and items and hasattr(items[0], "id")):
                continue
            ids = [item.id for item in items]
            repeated.update((field, i) for i, name in enumerate(ids) if name in ids[:i])
            for position, name in enumerate(ids):
                yield from one(kind, name, file, (field, position))
        if isinstance(file.record, Bottleneck):
            yield from one("bottleneck", file.record.id, file, ("id",))


_LISTS = (
    ("metric", "metrics"),
    ("recipe", "recipes"),
    ("device", "devices"),
    ("threshold", "thresholds"),
    ("guard", "guards"),
    ("source", "sources"),
    ("fix", "fixes"),
)


def _lost_branches(file: LoadedFile, tree: Tree) -> Iterator[Problem]:
    seen: set[str] = set()
    for field in ("questions", "leaves"):
        for position, node in enumerate(getattr(tree, field)):
            if node.id in seen:
                text = f"node {node.id!r} is defined twice"
                yield at(file.shown, file.marks, (field, position, "id"), text)
            seen.add(node.id)
    nodes = seen
    goals: list[tuple[Loc, str]] = [(("root",), tree.root)]
    for position, question in enumerate(tree.questions):
        goals += [
            (("questions", position, branch), getattr(question, branch))
            for branch in ("then", "otherwise", "unknown")
        ]
    for loc, name in goals:
        if name not in nodes:
            text = f"unknown node {name!r}{did_you_mean(name, nodes)}"
            yield at(file.shown, file.marks, loc, text)
