"""Finds effects that name no resource, or no reason to wait, of the model of the time."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.errors import Problem, did_you_mean
from kernelkb.loading.problems import Loc, locate_problem
from kernelkb.loading.references import LoadedFile
from kernelkb.model.entries.effect import EffectCatalogue


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
