"""What a measurement is of: its subject as a record, and the attempt that holds its sources.

A failure to keep an attempt costs the entry, and neither the command nor the user's files.
"""

from __future__ import annotations

import hashlib
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kernelkb import __version__
from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.decide.past_changes import vectorize_answer
from kernelkb.errors import KbError
from kernelkb.measure.build.folders import find_source_files, parse_include_folders
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.model.answers.recommendation import KernelFindings
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.history import (
    AdvisedChange,
    Attempt,
    AttemptId,
    Measurement,
    MeasurementKind,
    SubjectRecord,
)
from kernelkb.model.records.measurement import Bench, Build, Machine, Profile
from kernelkb.safety.workspace import may_write, read_bytes

_DIGITS = 12


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
        return find_open_session_for(bench_target.subject.kernel.id, bench_target.project)
    except KbError:  # the step that writes to that session reports it
        return None


def make_record_subject(bench_target: BenchTarget, built: Build, workload: str) -> SubjectRecord:
    """Return everything that a measurement of this variant on this machine depends on."""
    kernel_folder, variant, machine = bench_target.subject
    return SubjectRecord(
        **bench_target.subject.identity_fields,
        workload=workload,
        sources=_digest_sources(bench_target),
        flags=(*variant.flags, *(f"-D{define}" for define in built.defines)),
        inputs=kernel_folder.kernel.workloads[workload],
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
    folder, kernel = bench_target.subject.kernel_folder.folder, bench_target.subject.kernel
    references = [(folder / name).resolve() for name in kernel.reference.files]
    return [*list_variant_files(bench_target), *references]


def list_variant_files(bench_target: BenchTarget) -> list[Path]:
    """Return the files that a variant is made of, and what they include."""
    folder, variant = bench_target.subject.kernel_folder.folder, bench_target.subject.variant
    folders = parse_include_folders(variant.flags, folder)
    files: dict[Path, None] = {}
    for name in (variant.source, *variant.also):
        files |= dict.fromkeys(find_source_files((folder / name).resolve(), folders))
    return list(files)


def _relative_name(path: Path, folder: Path) -> str:
    home = folder.resolve()
    return str(path.relative_to(home)) if path.is_relative_to(home) else path.name


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class KeptState(NamedTuple):
    """A state that was kept, or why it was not."""

    attempt: AttemptId | None
    failure: str | None


NOT_KEPT = KeptState(None, None)


def keep_state(
    bench_target: BenchTarget, said: str | None = None, base: AttemptId | None = None
) -> KeptState:
    """Keep the files of a variant as they are now; an equal state is not kept twice.

    One whose source lies outside the project is not kept.

    Args:
        bench_target: The variant.
        said: What the author says that was changed.
        base: The state that it is a change of, where it is the first of its variant.
    """
    contents = read_own_files(bench_target) if may_write() else {}
    if not contents:
        return NOT_KEPT
    from kernelkb.record.attempt_store import open_attempts  # loads SQLAlchemy

    project = bench_target.project
    try:
        with open_attempts(project) as attempts:
            draft = describe_state(bench_target, contents)
            own = {"said": said, "session": find_session(bench_target), "parent": base}
            draft = draft.model_copy(update=own)
            attempts.keep(draft, contents, identify_checkout(project))
            return KeptState(draft.id, None)
    except (KbError, OSError) as error:
        return KeptState(None, f"this state was not kept: {error}")


def describe_state(bench_target: BenchTarget, contents: dict[str, bytes]) -> Attempt:
    """Return the attempt for some files of a variant, without a parent."""
    from kernelkb.record.attempt_store import create_attempt, digest_content

    return create_attempt(
        **bench_target.subject.identity_fields,
        files={name: digest_content(content) for name, content in contents.items()},
        flags=bench_target.subject.variant.flags,
        at=datetime.now(UTC),
    )


def read_own_files(bench_target: BenchTarget) -> dict[str, bytes]:
    """Return the content of a variant's files in the project, by path; empty if it lies outside."""
    root = bench_target.project.resolve()
    own = (
        bench_target.subject.kernel_folder.folder / bench_target.subject.variant.source
    ).resolve()
    if not own.is_relative_to(root):
        return {}
    try:
        return {
            path.relative_to(root).as_posix(): read_bytes(path)
            for path in list_variant_files(bench_target)
            if path.is_relative_to(root)
        }
    except (KbError, OSError):  # the build that follows says it
        return {}


def identify_checkout(project: Path) -> str:
    """Return a short digest of this machine's name and the project's folder."""
    words = f"{platform.node()}\0{project.resolve()}"
    return hashlib.sha256(words.encode()).hexdigest()[:_DIGITS]


def digest_task(bench_target: BenchTarget) -> str:
    """Return a digest of what judges a kernel: its kernel.yaml and its reference."""
    kernel, folder = bench_target.subject.kernel, bench_target.subject.kernel_folder.folder
    running = hashlib.sha256()
    for name in ("kernel.yaml", *kernel.reference.files):
        path = folder / name
        running.update(path.read_bytes() if path.is_file() else b"")
    return running.hexdigest()[:_DIGITS]


def keep_advice(project: Path, answer: KernelFindings, attempt: AttemptId | None) -> str | None:
    """Keep the first fix of an answer with the state that it is about; return why that failed."""
    first = next((one for one in answer["diagnoses"] if one["verdict"] == "matches"), None)
    if attempt is None or first is None or not first["fixes"] or not may_write():
        return None
    from kernelkb.record.attempt_store import create_event, open_attempts

    gain, falsifier = first["fixes"][0]["predicted_speedup"], first["falsifier"]
    advised = AdvisedChange(
        bottleneck=first["bottleneck"],
        fix=first["fixes"][0]["id"],
        predicted=(gain["low"], gain["point"], gain["high"]) if gain else None,
        falsifier=falsifier["expect"] if falsifier else None,
        state={name: round(value, 2) for name, value in vectorize_answer(answer).items()},
    )
    event = create_event(
        attempt=attempt,
        kernel=answer["kernel"],
        kind="recommend",
        origin=identify_checkout(project),
        found=f"{advised.bottleneck} -> {advised.fix}",
        advised=advised,
    )
    try:
        with open_attempts(project) as store:
            store.add((), [event])
    except (KbError, OSError) as error:
        return f"the history has no entry of it: {error}"
    return None
