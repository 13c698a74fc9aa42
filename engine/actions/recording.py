"""Keep what was measured: each result becomes a record in the project's database."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelkb import __version__
from kernelkb.actions.bench_target import BenchTarget
from kernelkb.errors import KbError
from kernelkb.measure.build.sources import find_source_files, parse_include_folders
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.model.history import MeasurementKind, SubjectRecord
from kernelkb.model.kernel import Variant
from kernelkb.model.measurement import Bench, Build, Machine, Profile


def record_result(
    place: BenchTarget, built: Build, result: Bench | Profile, rival: Variant | None = None
) -> dict[str, str]:
    """Write a result to the database; return its record's id, or why it has none, as its fields.

    What was measured is worth more than the record of it: a full disk costs nobody the answer.

    Args:
        place: Where it was measured.
        built: What was.
        result: What came of it.
        rival: Another variant that it was timed next to.
    """
    from kernelkb.record.measurements.identity import create_measurement
    from kernelkb.record.measurements.store import open_store

    kind: MeasurementKind = "bench" if isinstance(result, Bench) else "profile"
    subject = make_record_subject(place, built, result.workload)
    try:
        made = create_measurement(
            kind,
            datetime.now(UTC),
            subject,
            session=_find_session(place),
            **(
                _bench_fields(place, result, rival)
                if isinstance(result, Bench)
                else _profile_fields(result)
            ),
        )
        with open_store(place.project) as store:
            store.add([made])
    except KbError as error:
        return {"unrecorded": str(error)}
    return {"measurement": made.id}


def _find_session(place: BenchTarget) -> str | None:
    from kernelkb.record.open_session import find_open_session_for

    try:
        return find_open_session_for(place.subject.kernel_folder.kernel.id, place.project)
    except KbError:  # whoever writes into that session will say so
        return None


def make_record_subject(place: BenchTarget, built: Build, workload: str) -> SubjectRecord:
    """Return all that a number of this variant depends on, on this machine."""
    source, variant, machine = place.subject
    return SubjectRecord(
        **place.subject.identity_fields,
        workload=workload,
        sources=_digest_sources(place),
        flags=(*variant.flags, *(f"-D{define}" for define in built.defines)),
        inputs=source.kernel.workloads[workload],
        device=machine.title,
        environment=collect_versions(machine),
        judge=__version__,
    )


def sources_digest(place: BenchTarget) -> str:
    """Return one digest of all files that a variant is made of: what changed shows."""
    running = hashlib.sha256()
    for path in sorted(_list_source_files(place)):
        running.update(path.name.encode() + path.read_bytes())
    return running.hexdigest()[:16]


def collect_versions(machine: Machine) -> dict[str, str]:
    """Return the versions that numbers depend on."""
    found = {
        "compiler": machine.compiler_version,
        "torch": machine.torch,
        "os": platform.platform(),
    }
    seen = query_driver() if machine.target == "cuda" else None
    return {**found, "driver": seen.version} if seen else found


def _digest_sources(place: BenchTarget) -> dict[str, str]:
    folder = place.subject.kernel_folder.folder
    return {_relative_name(path, folder): _digest_file(path) for path in _list_source_files(place)}


def _list_source_files(place: BenchTarget) -> list[Path]:
    source, variant, _ = place.subject
    folders = parse_include_folders(variant.flags, source.folder)
    found: dict[Path, None] = {}
    for name in (variant.source, *variant.also):
        found |= dict.fromkeys(find_source_files((source.folder / name).resolve(), folders))
    return [*found, (source.folder / source.kernel.reference.file).resolve()]


def _relative_name(path: Path, folder: Path) -> str:
    home = folder.resolve()
    return str(path.relative_to(home)) if path.is_relative_to(home) else path.name


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _bench_fields(place: BenchTarget, made: Bench, rival: Variant | None) -> Mapping[str, Any]:
    same = ("verdict", "candidate_us", "baseline", "baseline_us", "speedup", "interval", "timing")
    kept = ("detail", "metrics", "disturbed_by", "warnings", "samples", "seconds")
    fields = {name: getattr(made, name) for name in (*same, *kept)}
    if rival is not None and made.baseline == f"variant {rival.id}":
        fields["baseline_sources"] = _digest_sources(place.with_variant(rival))
    return fields


def _profile_fields(made: Profile) -> Mapping[str, Any]:
    return {
        "status": made.tool,
        "detail": made.detail,
        "metrics": made.metrics,
        "seconds": made.seconds,
    }
