"""Makes the measurement of a bench or a profile, with all that the result depends on."""

from __future__ import annotations

import hashlib
import platform
from datetime import UTC, datetime
from pathlib import Path

from kernelkb import __version__
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.errors import KbError
from kernelkb.measure.build.folders import find_source_files, parse_include_folders
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.history import Measurement, MeasurementKind, SubjectRecord
from kernelkb.model.records.measurement import Bench, Build, Machine, Profile


def make_measurement(
    bench_target: BenchTarget,
    built: Build,
    result: Bench | Profile,
    rival: Variant | None = None,
    session: str | None = None,
) -> Measurement:
    """Return the record of a result, with the versions of this machine.

    Args:
        bench_target: The variant and the machine.
        built: The build that was measured.
        result: The bench or profile.
        rival: Another variant that was one of the baselines.
        session: The open session, if there is one for the kernel.

    Raises:
        BadValueError: A field has an invalid value.
    """
    from kernelkb.record.measurements.rows import create_measurement

    kind: MeasurementKind = "bench" if isinstance(result, Bench) else "profile"
    subject = make_record_subject(bench_target, built, result.workload)
    fields = result.get_shared_fields(Measurement)
    if isinstance(result, Profile):
        fields["status"] = result.tool
    elif rival is not None and result.baseline == f"variant {rival.id}":
        fields["baseline_sources"] = _digest_sources(bench_target.with_variant(rival))
    return create_measurement(kind, datetime.now(UTC), subject, session=session, **fields)


def find_session(bench_target: BenchTarget) -> str | None:
    """Return the id of the open session, if one is open for the kernel."""
    from kernelkb.record.sessions import find_open_session_for

    try:
        return find_open_session_for(
            bench_target.subject.kernel_folder.kernel.id, bench_target.project
        )
    except KbError:  # the step that writes to that session reports it
        return None


def make_record_subject(bench_target: BenchTarget, built: Build, workload: str) -> SubjectRecord:
    """Return everything that a measurement of this variant on this machine depends on."""
    source, variant, machine = bench_target.subject
    return SubjectRecord(
        **bench_target.subject.identity_fields,
        workload=workload,
        sources=_digest_sources(bench_target),
        flags=(*variant.flags, *(f"-D{define}" for define in built.defines)),
        inputs=source.kernel.workloads[workload],
        device=machine.title,
        environment=collect_versions(machine),
        judge=__version__,
    )


def sources_digest(bench_target: BenchTarget) -> str:
    """Return one digest of all source files of a variant; it shows whether the code changed."""
    running = hashlib.sha256()
    for path in sorted(_list_source_files(bench_target)):
        running.update(path.name.encode() + path.read_bytes())
    return running.hexdigest()[:16]


def collect_versions(machine: Machine) -> dict[str, str]:
    """Return the versions that numbers depend on."""
    versions = {
        "compiler": machine.compiler_version,
        "torch": machine.torch,
        "os": platform.platform(),
    }
    driver = query_driver() if machine.target == "cuda" else None
    return {**versions, "driver": driver.version} if driver else versions


def _digest_sources(bench_target: BenchTarget) -> dict[str, str]:
    folder = bench_target.subject.kernel_folder.folder
    return {
        _relative_name(path, folder): _digest_file(path)
        for path in _list_source_files(bench_target)
    }


def _list_source_files(bench_target: BenchTarget) -> list[Path]:
    source = bench_target.subject.kernel_folder
    references = [(source.folder / name).resolve() for name in source.kernel.reference.files]
    return [*list_variant_files(bench_target), *references]


def list_variant_files(bench_target: BenchTarget) -> list[Path]:
    """Return the files that a variant is made of, and what they include."""
    source, variant, _ = bench_target.subject
    folders = parse_include_folders(variant.flags, source.folder)
    files: dict[Path, None] = {}
    for name in (variant.source, *variant.also):
        files |= dict.fromkeys(find_source_files((source.folder / name).resolve(), folders))
    return list(files)


def _relative_name(path: Path, folder: Path) -> str:
    home = folder.resolve()
    return str(path.relative_to(home)) if path.is_relative_to(home) else path.name


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
