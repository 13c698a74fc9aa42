"""What was measured: find it, compare it, guard it, and carry it elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.bench_target import project
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.model.comparison import Comparison, Ruling
from kernelkb.model.history import Measurement
from kernelkb.record.measurements.compare import compare
from kernelkb.record.measurements.import_export import Exchanged, Format, exported, take_in
from kernelkb.record.measurements.regression_gate import FAIL_UNDER, regress
from kernelkb.record.measurements.store import LIMIT, Store, open_store

BEST = "best"
_FEWEST_DIGITS = 4


class Compared(NamedTuple):
    """Two measurements, how each was chosen, and what can be said of them."""

    a: Measurement
    b: Measurement
    chosen: tuple[str, str]
    comparison: Comparison


class _Where(NamedTuple):
    """What narrows a choice down; None leaves it open."""

    kernel: str | None = None
    workload: str | None = None
    device: str | None = None
    target: str | None = None


def history(
    kernel: str,
    variant: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    limit: int = LIMIT,
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
    with open_store(project()) as store:
        _known_kernel(store, kernel)
        return store.history(kernel, variant, workload, _device(store, device), limit=limit)


def best(
    kernel: str | None = None, workload: str | None = None, device: str | None = None
) -> list[Measurement]:
    """Return the fastest valid measurement of each kernel, workload, device and target.

    Raises:
        UnknownNameError: Nothing of that kernel or device was measured.
        DatabaseError: The database cannot be read.
    """
    with open_store(project()) as store:
        _known_kernel(store, kernel)
        return store.best(kernel, workload, _device(store, device))


def compared(
    a: str,
    b: str,
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
) -> Compared:
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
    with open_store(project()) as store:
        _known_kernel(store, kernel)
        where = _Where(kernel, workload, _device(store, device))
        found = {word: _by_id(store, word) for word in (a, b)}
        for word in (a, b):
            known = next((one for one in found.values() if one), None)
            place = _beside(known) if known else where
            found[word] = found[word] or _by_name(store, word, place)
        first, second = found[a], found[b]
    if first is None or second is None:  # each was found, or it was said why not
        raise UnknownNameError("measurement", b, (), "kb history KERNEL")
    return Compared(first, second, (_how(a, first), _how(b, second)), compare(first, second))


def regressed(
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    fail_under: float = FAIL_UNDER,
    *,
    renew: bool = False,
) -> list[Ruling]:
    """Hold the newest benches against the promoted ones, and promote what is confirmed faster.

    See ``kernelkb.record.measurements.regression_gate.regress``.

    Raises:
        UnknownNameError: Nothing of that kernel or device was measured.
        DatabaseError: The database cannot be read or written.
    """
    with open_store(project()) as store:
        _known_kernel(store, kernel)
        where = _device(store, device)
        return regress(store, kernel, workload, where, fail_under=fail_under, renew=renew)


def export(form: Format, path: Path) -> Exchanged:
    """Write all measurements to a file, which is there whole or not at all.

    Raises:
        BadValueError: The file cannot be written.
        DatabaseError: The database cannot be read.
    """
    left_out: Counter[str] = Counter()
    with open_store(project()) as store:
        total = store.count()
        _write(path, exported(store, form, left_out))
    return Exchanged(total - left_out.total(), 0, left_out)


def export_pieces(form: Format, left_out: Counter[str]) -> Iterator[str]:
    """Yield the text of an export. See ``kernelkb.record.measurements.import_export.exported``."""
    with open_store(project()) as store:
        yield from exported(store, form, left_out)


def import_file(path: Path, given: Mapping[str, str]) -> Exchanged:
    """Add what a file holds. See ``kernelkb.record.measurements.import_export.take_in``."""
    with open_store(project()) as store:
        return take_in(store, path, given)


def _write(path: Path, pieces: Iterable[str]) -> None:
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


def _known_kernel(store: Store, kernel: str | None) -> None:
    if kernel is not None:
        known = store.values("kernel")
        if kernel not in known:
            raise UnknownNameError("measured kernel", kernel, known, "kb best")


def _device(store: Store, device: str | None) -> str | None:
    """Return the one device whose name holds what was given."""
    if device is None:
        return None
    known = store.values("device")
    near = [one for one in known if device.lower() in one.lower()]
    if device in known or len(near) == 1:
        return device if device in known else near[0]
    if near:
        raise BadValueError(f"{device!r} could be each of {', '.join(near)}; write more of it")
    raise UnknownNameError("measured device", device, known, "kb best")


def _by_id(store: Store, word: str) -> Measurement | None:
    if len(word) < _FEWEST_DIGITS or word == BEST:
        return None
    try:
        return store.get(word)
    except UnknownNameError:
        return None


def _beside(known: Measurement) -> _Where:
    subject = known.subject
    return _Where(subject.kernel, subject.workload, subject.device, subject.target)


def _by_name(store: Store, word: str, where: _Where) -> Measurement:
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
        known = [BEST, *store.values("variant", kernel)]
        raise UnknownNameError("measurement or variant", word, known, "kb history KERNEL")
    return max(found, key=lambda one: (one.at, one.id))


def _how(word: str, found: Measurement) -> str:
    if word == BEST:
        return "the best known"
    return "by its id" if found.id.startswith(word) else f"the newest of {word}"
