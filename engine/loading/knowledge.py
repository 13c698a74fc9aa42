"""Every knowledge file: read all, then resolve references, then report everything at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from engine.errors import KnowledgeError, Problem, did_you_mean
from engine.loading.digest import digest, files_of
from engine.loading.located import read
from engine.loading.paths import shipped
from engine.loading.references import LoadedFile, complaints
from engine.model.bottleneck import Bottleneck, GuardCatalogue
from engine.model.device import DeviceCatalogue
from engine.model.fix import FixFamily
from engine.model.knowledge import Knowledge
from engine.model.metric import MetricCatalogue
from engine.model.threshold import Bibliography, Calibration, ThresholdCatalogue
from engine.model.tree import Tree

_SINGLE: dict[str, type[BaseModel]] = {
    "metrics.yaml": MetricCatalogue,
    "devices.yaml": DeviceCatalogue,
    "thresholds.yaml": ThresholdCatalogue,
    "guards.yaml": GuardCatalogue,
    "calibration.yaml": Calibration,
    "sources.yaml": Bibliography,
}
_FOLDERS: dict[str, type[BaseModel]] = {
    "bottlenecks": Bottleneck,
    "fixes": FixFamily,
    "trees": Tree,
}


def load_knowledge(root: Path | None = None) -> Knowledge:
    """Load the knowledge folder.

    Args:
        root: The folder; the shipped one by default.

    Raises:
        KnowledgeError: At least one file is wrong or refers to something that does not exist.
            Carries every complaint of every file.
    """
    folder = root or Path(shipped("knowledge"))
    files, problems = _read_all(folder)
    problems += _missing_singles(folder)
    if not problems:  # a file that did not load would make every reference to it dangle
        problems = complaints(files)
    if problems:
        raise KnowledgeError(problems)
    return _assemble(folder, files)


def _read_all(folder: Path) -> tuple[list[LoadedFile], list[Problem]]:
    files: list[LoadedFile] = []
    problems = list(_misspelt(folder))
    for relative in files_of(str(folder)):
        path = folder / relative
        top = relative.partition("/")[0]
        model = _SINGLE.get(relative) or _FOLDERS.get(top)
        shown = _shown(path)
        if model is None:
            known = (*_SINGLE, *(f"{name}/" for name in _FOLDERS))
            near = did_you_mean(relative, known)
            problems.append(Problem(shown, 1, 1, "file", f"not a knowledge file{near}"))
            continue
        record, marks, found = read(path, model, shown)
        problems += found
        if record is not None:
            files.append(LoadedFile(relative, shown, record, marks))
    return files, problems


def _misspelt(folder: Path) -> Iterator[Problem]:
    """Name files that look like knowledge and would never be read."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in (".yaml", ".yml") and path.suffix != ".yaml":
            yield Problem(_shown(path), 1, 1, "file", f"end its name with .yaml, not {path.suffix}")


def _shown(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _missing_singles(folder: Path) -> Iterator[Problem]:
    if not folder.is_dir():
        yield Problem(str(folder), 1, 1, "file", "no such folder")
        return
    for name in _SINGLE:
        if not (folder / name).is_file():
            yield Problem(f"{_shown(folder)}/{name}", 1, 1, "file", "this file is required")


def _assemble(folder: Path, files: list[LoadedFile]) -> Knowledge:
    single = {file.path: file.record for file in files}
    many = {name: [f.record for f in files if f.path.startswith(f"{name}/")] for name in _FOLDERS}
    return Knowledge.model_construct(
        catalogue=single["metrics.yaml"],
        devices=single["devices.yaml"],
        thresholds=single["thresholds.yaml"],
        guards=single["guards.yaml"],
        calibration=single["calibration.yaml"],
        bibliography=single["sources.yaml"],
        bottlenecks=tuple(many["bottlenecks"]),
        families=tuple(many["fixes"]),
        trees=tuple(many["trees"]),
        sha256=digest(str(folder)),
    )
