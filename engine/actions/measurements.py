"""What was measured: find it, compare it, guard it, and carry it elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.bench_target import get_project_path
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.model.comparison import PairwiseComparison, RegressionResult
from kernelkb.model.history import Measurement
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.import_export import (
    Format,
    TransferCounts,
    generate_export,
    import_records,
)
from kernelkb.record.measurements.regression_gate import FAIL_UNDER, apply_regression_gate
from kernelkb.record.measurements.store import DEFAULT_LIMIT, Store, open_store

BEST = "best"
_MIN_ID_DIGITS = 4


class MeasurementComparison(NamedTuple):
    """Two measurements, how each was chosen, and what can be said of them."""

    a: Measurement
    b: Measurement
    selected_by: tuple[str, str]
    comparison: PairwiseComparison


class _MeasurementFilter(NamedTuple):
    """What narrows a choice down; None leaves it open."""

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
        variant: Only of this one, and so on.
        workload: A workload's name.
        device: A device as measurements name it, or a part of that.
        limit: At most so many.

    Raises:
        UnknownNameError: Nothing of that kernel or device was measured.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path()) as store:
        _require_measured_kernel(store, kernel)
        return store.history(kernel, variant, workload, _resolve_device(store, device), limit=limit)


def find_best_measurements(
    kernel: str | None = None, workload: str | None = None, device: str | None = None
) -> list[Measurement]:
    """Return the fastest valid measurement of each kernel, workload, device and target.

    Raises:
        UnknownNameError: Nothing of that kernel or device was measured.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path()) as store:
        _require_measured_kernel(store, kernel)
        return store.best(kernel, workload, _resolve_device(store, device))


def select_and_compare(
    a: str,
    b: str,
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
) -> MeasurementComparison:
    """Return how many times as fast ``b`` is as ``a``.

    Args:
        a: An id, the beginning of one, a variant (its newest bench), or ``best``.
        b: The same; chosen from the place of ``a`` where it is no id, and the other way round.
        kernel: Whose variants are meant, and so on.
        workload: A workload's name.
        device: A device as measurements name it, or a part of that.

    Raises:
        UnknownNameError: There is no such measurement.
        BadValueError: It could be several.
        DatabaseError: The database cannot be read.
    """
    with open_store(get_project_path()) as store:
        _require_measured_kernel(store, kernel)
        where = _MeasurementFilter(kernel, workload, _resolve_device(store, device))
        found = {word: _find_by_id(store, word) for word in (a, b)}
        for word in (a, b):
            known = next((one for one in found.values() if one), None)
            place = _make_filter_from(known) if known else where
            found[word] = found[word] or _find_by_name(store, word, place)
        first, second = found[a], found[b]
    if first is None or second is None:  # each was found, or it was said why not
        raise UnknownNameError("measurement", b, (), "history", kernel=None)
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
    """Hold the newest benches against the promoted ones, and promote what is confirmed faster.

    See ``kernelkb.record.measurements.regression_gate.apply_regression_gate``.

    Raises:
        UnknownNameError: Nothing of that kernel or device was measured.
        DatabaseError: The database cannot be read or written.
    """
    with open_store(get_project_path()) as store:
        _require_measured_kernel(store, kernel)
        where = _resolve_device(store, device)
        return apply_regression_gate(
            store, kernel, workload, where, fail_under=fail_under, renew=renew
        )


def export_to_file(form: Format, path: Path) -> TransferCounts:
    """Write all measurements to a file, which is there whole or not at all.

    Raises:
        BadValueError: The file cannot be written.
        DatabaseError: The database cannot be read.
    """
    left_out: Counter[str] = Counter()
    with open_store(get_project_path()) as store:
        total = store.count()
        _write_atomically(path, generate_export(store, form, left_out))
    return TransferCounts(total - left_out.total(), 0, left_out)


def stream_export(form: Format, left_out: Counter[str]) -> Iterator[str]:
    """Yield the text of an export.

    See ``kernelkb.record.measurements.import_export.generate_export``.
    """
    with open_store(get_project_path()) as store:
        yield from generate_export(store, form, left_out)


def import_file(path: Path, given: Mapping[str, str]) -> TransferCounts:
    """Add what a file holds. See ``kernelkb.record.measurements.import_export.import_records``."""
    with open_store(get_project_path()) as store:
        return import_records(store, path, given)


def _write_atomically(path: Path, pieces: Iterable[str]) -> None:
    try:
        folder = path.resolve().parent
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=folder, prefix=f".{path.name}.", delete=False
        ) as file:
            try:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink()
                raise
    except OSError as error:
        raise BadValueError(f"cannot write {path}: {error.strerror}; name another file") from error


def _require_measured_kernel(store: Store, kernel: str | None) -> None:
    if kernel is not None:
        known = store.distinct_values("kernel")
        if kernel not in known:
            raise UnknownNameError("measured kernel", kernel, known, "best")


def _resolve_device(store: Store, device: str | None) -> str | None:
    """Return the one device whose name holds what was given."""
    if device is None:
        return None
    known = store.distinct_values("device")
    near = [one for one in known if device.lower() in one.lower()]
    if device in known or len(near) == 1:
        return device if device in known else near[0]
    if near:
        raise BadValueError(f"{device!r} could be each of {', '.join(near)}; write more of it")
    raise UnknownNameError("measured device", device, known, "best")


def _find_by_id(store: Store, word: str) -> Measurement | None:
    if len(word) < _MIN_ID_DIGITS or word == BEST:
        return None
    try:
        return store.get(word)
    except UnknownNameError:
        return None


def _make_filter_from(known: Measurement) -> _MeasurementFilter:
    subject = known.subject
    return _MeasurementFilter(subject.kernel, subject.workload, subject.device, subject.target)


def _find_by_name(store: Store, word: str, where: _MeasurementFilter) -> Measurement:
    kernel, workload, device, target = where
    if word == BEST:
        found = store.best(kernel, workload, device, target=target)
        if len(found) > 1:
            raise BadValueError("best of what? name it with --kernel, --workload and --device")
    else:
        found = store.latest(kernel, word, workload, device, target=target)
    if len({one.subject.kernel for one in found}) > 1:
        raise BadValueError(f"several kernels have a variant {word!r}; name one with --kernel")
    if not found:
        known = [BEST, *store.distinct_values("variant", kernel)]
        raise UnknownNameError("measurement or variant", word, known, "history", kernel=None)
    return max(found, key=lambda one: (one.at, one.id))


def _describe_selection(word: str, found: Measurement) -> str:
    if word == BEST:
        return "the best known"
    return "by its id" if found.id.startswith(word) else f"the newest of {word}"
