"""Loads a knowledge folder: read every file, resolve references, report all problems at once."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from kernelkb.errors import KnowledgeError, Problem, did_you_mean
from kernelkb.loading.assemble import (
    GATE_FILE,
    OPTIONAL_FILES,
    RECORD_FOLDERS,
    SINGLE_FILES,
    assemble,
)
from kernelkb.loading.digest import compute_sha256, list_yaml_files
from kernelkb.loading.effect_names import find_unknown_resources
from kernelkb.loading.located import read_yaml
from kernelkb.loading.problems import locate_problem
from kernelkb.loading.references import LoadedFile, find_reference_problems
from kernelkb.loading.reviews import apply_reviews
from kernelkb.model.entries.device import DeviceCatalogue
from kernelkb.model.entries.effect import EffectCatalogue
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.safety.paths import shipped_folder


def load_knowledge(
    root: Path | None = None,
    overlay: Path | None = None,
    without: Container[str] = (),
) -> Knowledge:
    """Load a knowledge folder, and a project's overlay on it.

    Args:
        root: The folder; the shipped one by default.
        overlay: A project's folder of the same layout, in which no file is required. It adds
            entries and overrides thresholds.
        without: Files that are skipped, by path below their folder.

    Raises:
        KnowledgeError: At least one file is wrong or refers to something that does not exist.
            Carries every problem of every file.
    """
    folder = root or Path(shipped_folder("knowledge"))
    files, problems = _read_all(folder, without)
    problems += _find_missing_files(folder, files)
    if overlay is not None:
        own, overlay_problems = _read_all(overlay, without)
        files += [file._replace(own=True) for file in own]
        problems += overlay_problems
    if not problems:  # a file that did not load would make every reference to it dangle
        problems = [*find_reference_problems(files), *find_unknown_resources(files)]
    if problems:
        raise KnowledgeError(problems)
    sha256 = compute_sha256(str(folder), str(overlay) if overlay else None)
    return apply_reviews(assemble(files, sha256, overlay), files)


def _read_all(
    folder: Path, skipped_files: Container[str]
) -> tuple[list[LoadedFile], list[Problem]]:
    files: list[LoadedFile] = []
    problems = list(_find_misspelt_suffixes(folder))
    for relative in list_yaml_files(str(folder)):
        if relative in skipped_files:
            continue
        path = folder / relative
        top = relative.partition("/")[0]
        model = SINGLE_FILES.get(relative) or RECORD_FOLDERS.get(top)
        shown = format_path(path)
        if model is None:
            names = (*SINGLE_FILES, *(f"{name}/" for name in RECORD_FOLDERS))
            near = did_you_mean(relative, names)
            problems.append(Problem(shown, 1, 1, "file", f"not a knowledge file{near}"))
            continue
        record, marks, file_problems = read_yaml(path, model, shown)
        problems += file_problems
        if record is not None:
            files.append(LoadedFile(relative, shown, record, marks))
    return files, problems


def _find_misspelt_suffixes(folder: Path) -> Iterator[Problem]:
    """Yield a problem for each file whose suffix would keep it from being read."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in (".yaml", ".yml") and path.suffix != ".yaml":
            yield Problem(
                format_path(path), 1, 1, "file", f"rename it to end with .yaml, not {path.suffix}"
            )


def format_path(path: Path) -> str:
    """Return a path as problems print it: relative to the working directory where it lies below."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _find_missing_files(folder: Path, files: list[LoadedFile]) -> Iterator[Problem]:
    if not folder.is_dir():
        yield Problem(str(folder), 1, 1, "file", "no such folder")
        return
    for name in (*SINGLE_FILES, GATE_FILE):
        if name not in OPTIONAL_FILES and not (folder / name).is_file():
            yield Problem(f"{format_path(folder)}/{name}", 1, 1, "file", "this file is required")
    for file in files:
        if isinstance(file.record, DeviceCatalogue) and file.record.common is None:
            yield locate_problem(
                file.display_path, file.marks, (), "required key 'common' is missing"
            )
        if isinstance(file.record, EffectCatalogue) and file.record.model is None:
            yield locate_problem(
                file.display_path, file.marks, (), "required key 'model' is missing"
            )
