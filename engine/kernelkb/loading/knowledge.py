"""Loads a knowledge folder: read every file, resolve references, report all problems at once.

Corrections of accepted reviews follow in ``kernelkb.loading.reviews``.

The code of fixes, ``fixes/code/<id of the fix>.cu``, is read apart. A file of it begins with the
lines ``// fix: ID``, ``// arch: TARGET ...`` and ``// source: ID``. It is no part of the loaded
knowledge and of its hash: no decision depends on it, and every start of kb would have to read it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kernelkb.errors import KnowledgeError, Problem, did_you_mean
from kernelkb.loading.digest import compute_sha256, list_yaml_files
from kernelkb.loading.located import (
    FILE_START,
    Marks,
    list_problems,
    locate_problem,
    make_problem,
    read_located_text,
    read_yaml,
)
from kernelkb.loading.references import LoadedFile, find_reference_problems, find_unknown_resources
from kernelkb.loading.reviews import apply_reviews
from kernelkb.model.entries.bottleneck import Bottleneck, GuardCatalogue, SymptomFamily
from kernelkb.model.entries.fix import EffectCatalogue, FixCode, FixFamily, LibraryCatalogue
from kernelkb.model.entries.knowledge import Knowledge, SearchTerms
from kernelkb.model.entries.learned import (
    AcceptedReview,
    LearnedCatalogue,
    LearnedFix,
    MeasuredCatalogue,
)
from kernelkb.model.entries.quantities import (
    Bibliography,
    Calibration,
    DeviceCatalogue,
    MetricCatalogue,
    Threshold,
    ThresholdCatalogue,
)
from kernelkb.model.entries.workflow import Pattern, Tree, Workflow
from kernelkb.safety.paths import shipped_folder

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

CODE_FOLDER = "fixes/code"
"""Below a knowledge folder."""
_HEADER = {
    "fix": "// fix: xor-swizzle",
    "arch": "// arch: sm_80 sm_90a",
    "source": "// source: kernelkb-judgement",
}
"""An example of each line of the header, in their order."""
_SIDES = ("before", "after")


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


def read_fix_code(fix: str, folders: Iterable[Path]) -> FixCode | None:
    """Return the code of a fix; None if no folder has any.

    Args:
        fix: Its id.
        folders: Knowledge folders; the first one that has the file counts.

    Raises:
        KnowledgeError: The file cannot be read, or its header is wrong.
    """
    for folder in folders:
        path = folder / CODE_FOLDER / f"{fix}.cu"
        if path.is_file():
            code, _, problems = _read_file(path)
            if code is None:
                raise KnowledgeError(problems)
            return code
    return None


def find_fix_code_problems(folder: Path, knowledge: Knowledge) -> list[Problem]:
    """Return every problem of the code in a knowledge folder.

    Args:
        folder: A knowledge folder.
        knowledge: What the headers may name.
    """
    known = {
        "fix": {fix.id for family in knowledge.families for fix in family.fixes},
        "source": {source.id for source in knowledge.bibliography.sources},
    }
    problems: list[Problem] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        inside = path.parent == folder / CODE_FOLDER
        if inside and path.suffix == ".cu":
            problems += _find_file_problems(path, known)
        elif path.suffix == ".cu" or folder / CODE_FOLDER in path.parents:
            text = f"not the code of a fix, which is {CODE_FOLDER}/<id of the fix>.cu"
            problems.append(make_problem(format_path(path), FILE_START, (), text))
    return problems


def _find_file_problems(path: Path, known: dict[str, set[str]]) -> Iterator[Problem]:
    code, marks, problems = _read_file(path)
    yield from problems
    if code is None:
        return
    shown = format_path(path)
    for key, name in (("fix", code.fix), ("source", code.source)):
        if name not in known[key]:
            text = f"unknown {key} {name!r}{did_you_mean(name, known[key])}"
            yield locate_problem(shown, marks, (key,), text)
    if code.fix != path.stem:
        text = f"{code.fix!r} must equal the file's name, {path.stem!r}"
        yield locate_problem(shown, marks, ("fix",), text)


def _read_file(path: Path) -> tuple[FixCode | None, Marks, list[Problem]]:
    """Return the record or None, the position of each value of the header, every problem."""
    shown = format_path(path)
    text, problems = read_located_text(path, shown)
    if text is None:
        return None, {}, problems
    fields, marks, problems = _parse_header(text, shown)
    for side in _SIDES:
        if not re.search(rf"^namespace {side} \{{", text, re.MULTILINE):
            missing = f"no line begins with `namespace {side} {{`"
            problems.append(make_problem(shown, FILE_START, (side,), missing))
    if problems:
        return None, marks, problems
    try:
        return FixCode.model_validate({**fields, "text": text}), marks, []
    except ValidationError as error:
        return None, marks, list_problems(error, shown, marks)


def _parse_header(text: str, shown: str) -> tuple[dict[str, Any], Marks, list[Problem]]:
    """Return the values of the header, their positions, and a problem for each other line."""
    fields: dict[str, Any] = {}
    marks: Marks = {}
    problems: list[Problem] = []
    lines = [*text.split("\n"), *("" for _ in _HEADER)]
    for at, (key, example) in enumerate(_HEADER.items()):
        words = list(re.finditer(r"\S+", lines[at]))[2:]
        if not lines[at].startswith(f"// {key}: ") or not words:
            text = f"this line must be like `{example}`"
            problems.append(make_problem(shown, _make_mark(at, 0), (key,), text))
            continue
        values = [word[0] for word in words]
        fields[key] = tuple(values) if key == "arch" else " ".join(values)
        marks[(key,)] = _make_mark(at, words[0].start())
        marks.update({(key, i): _make_mark(at, word.start()) for i, word in enumerate(words)})
    return fields, marks, problems


def _make_mark(line: int, column: int) -> yaml.Mark:
    return yaml.Mark("", 0, line, column, None, 0)
