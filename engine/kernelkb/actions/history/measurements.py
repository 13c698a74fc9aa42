"""Measurement history: list, compare, check for regressions, export and import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.model.records.history import Measurement, PairwiseComparison, RegressionResult
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.import_export import (
    TransferCounts,
    generate_attempts,
    generate_export,
    import_records,
)
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.regression_gate import FAIL_UNDER, apply_regression_gate
from kernelkb.record.measurements.store import DEFAULT_LIMIT, Store, open_store
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import read_kernel_name
from kernelkb.safety.storage import describe_write_cure

BEST = "best"
"""The word that selects the fastest valid measurement."""

_MIN_ID_DIGITS = 4
"""Shortest beginning of an id that selects a measurement; shorter words are variants."""


class MeasurementComparison(NamedTuple):
    """Two measurements, how each was selected, and their comparison."""

    a: Measurement
    b: Measurement
    selected_by: tuple[str, str]
    comparison: PairwiseComparison


class _MeasurementFilter(NamedTuple):
    """The kernel, workload, device and target to select from; None stands for any."""

    kernel: str | None = None
    workload: str | None = None
    device: str | None = None
    target: str | None = None


def list_measurements(
    kernel: str,
    variant: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> list[Measurement]:
    """Return the newest measurements of a kernel, newest first.

    Args:
        kernel: Its name.
        variant: Only of this variant.
        workload: A workload's name.
        device: A device as measurements name it, or a part of that.
        limit: Maximum number of measurements.

    Raises:
        UnknownNameError: No measurement of that kernel or device.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path(), writes=False) as store:
        name = _require_measured_kernel(store, kernel) or kernel
        return store.history(name, variant, workload, _resolve_device(store, device), limit=limit)


def find_best_measurements(
    kernel: str | None = None, workload: str | None = None, device: str | None = None
) -> list[Measurement]:
    """Return the fastest valid measurement of each kernel, workload, device and target.

    Raises:
        UnknownNameError: No measurement of that kernel or device.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path(), writes=False) as store:
        name = _require_measured_kernel(store, kernel)
        return store.best(name, workload, _resolve_device(store, device))


def select_and_compare(
    a: str,
    b: str,
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
) -> MeasurementComparison:
    """Return how many times as fast ``b`` is as ``a``.

    Args:
        a: An id or its beginning, a variant (its newest bench), or ``best``.
        b: The same. If only one of the two is an id, the other is selected from the same kernel,
            workload, device and target.
        kernel: The kernel of the variants.
        workload: A workload's name.
        device: A device as measurements name it, or a part of that.

    Raises:
        UnknownNameError: There is no such measurement.
        BadValueError: The word selects several measurements.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path(), writes=False) as store:
        name = _require_measured_kernel(store, kernel)
        where = _MeasurementFilter(name, workload, _resolve_device(store, device))
        first, second = _find_by_id(store, a), _find_by_id(store, b)
        if first is None:
            first = _find_by_name(store, a, _make_filter_from(second) if second else where)
        if second is None:
            second = _find_by_name(store, b, _make_filter_from(first))
    return MeasurementComparison(
        first,
        second,
        (_describe_selection(a, first), _describe_selection(b, second)),
        compute_comparison(first, second),
    )


def check_project_regressions(
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    fail_under: float = FAIL_UNDER,
    *,
    renew: bool = False,
) -> list[RegressionResult]:
    """Compare the newest benches with the promoted ones; promote those confirmed faster.

    See ``kernelkb.record.measurements.regression_gate.apply_regression_gate``.

    Raises:
        UnknownNameError: No measurement of that kernel or device.
        DatabaseError: The database cannot be read or written.
    """
    with open_store(get_project_path(), writes=False) as store:
        name = _require_measured_kernel(store, kernel)
    with open_store(get_project_path()) as store:
        where = _resolve_device(store, device)
        return apply_regression_gate(
            store, name, workload, where, fail_under=fail_under, renew=renew
        )


def export_to_file(path: Path, *, with_sources: bool = True) -> int:
    """Write all measurements and attempts to a file of JSON Lines, atomically.

    Args:
        path: The file.
        with_sources: Whether to write the source files of the attempts.

    Returns:
        How many measurements there are.

    Raises:
        BadValueError: The file cannot be written.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path(), writes=False) as store:
        total = store.count()
        _write_atomically(path, _generate(store, with_sources=with_sources))
    return total


def _generate(store: Store, *, with_sources: bool) -> Iterator[str]:
    yield from generate_export(store)
    with open_attempts(get_project_path(), writes=False) as attempts:
        yield from generate_attempts(attempts, with_sources=with_sources)


def stream_export(*, with_sources: bool = True) -> Iterator[str]:
    """Yield the text of an export."""
    with open_store(get_project_path(), writes=False) as store:
        yield from _generate(store, with_sources=with_sources)


def import_file(path: Path) -> TransferCounts:
    """Add the measurements and attempts of a file.

    See ``kernelkb.record.import_export.import_records``.
    """
    project = get_project_path()
    with open_store(project) as store, open_attempts(project) as attempts:
        return import_records(store, path, attempts)


def _write_atomically(path: Path, pieces: Iterable[str]) -> None:
    try:
        replace_file(path, pieces)
    except OSError as error:
        cure = describe_write_cure(error, "name another file")
        raise BadValueError(f"cannot write {path}: {error.strerror}; {cure}") from error


def _require_measured_kernel(store: Store, kernel: str | None) -> str | None:
    """Return the name of a kernel that was measured; None for any."""
    if kernel is None:
        return None
    name, known = read_kernel_name(kernel), store.distinct_values("kernel")
    if name not in known:
        raise UnknownNameError("measured kernel", kernel, known, "best")
    return name


def _resolve_device(store: Store, device: str | None) -> str | None:
    """Return the one device whose name contains the given text."""
    if device is None:
        return None
    known = store.distinct_values("device")
    matches = [name for name in known if device.lower() in name.lower()]
    if device in known or len(matches) == 1:
        return device if device in known else matches[0]
    if matches:
        names = ", ".join(matches)
        raise BadValueError(f"{device!r} matches several devices: {names}; write more of the name")
    raise UnknownNameError("measured device", device, known, "best")


def _find_by_id(store: Store, word: str) -> Measurement | None:
    if len(word) < _MIN_ID_DIGITS or word == BEST:
        return None
    try:
        return store.get(word)
    except UnknownNameError:
        return None


def _make_filter_from(measurement: Measurement) -> _MeasurementFilter:
    subject = measurement.subject
    return _MeasurementFilter(subject.kernel, subject.workload, subject.device, subject.target)


def _find_by_name(store: Store, word: str, where: _MeasurementFilter) -> Measurement:
    kernel, workload, device, target = where
    if word == BEST:
        candidates = store.best(kernel, workload, device, target=target)
        if len(candidates) > 1:
            raise BadValueError(
                "best matches several kernels, workloads or devices; "
                "name one with --kernel, --workload and --device"
            )
    else:
        candidates = store.latest(kernel, word, workload, device, target=target)
    if len({candidate.subject.kernel for candidate in candidates}) > 1:
        raise BadValueError(f"several kernels have a variant {word!r}; name one with --kernel")
    if not candidates:
        known = [BEST, *store.distinct_values("variant", kernel)]
        raise UnknownNameError("measurement or variant", word, known, "best")
    return max(candidates, key=lambda candidate: (candidate.at, candidate.id))


def _describe_selection(word: str, measurement: Measurement) -> str:
    if word == BEST:
        return "the best known"
    return "by its id" if measurement.id.startswith(word) else f"the newest of {word}"
