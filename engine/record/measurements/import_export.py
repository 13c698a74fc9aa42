"""Files of measurements: our own JSON Lines, which lose nothing, and two formats of others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.model.comparison import Promotion
from kernelkb.model.foreign import SolvedTrace, T4File
from kernelkb.model.history import Measurement
from kernelkb.record.measurements import flashinfer_traces, t4
from kernelkb.record.measurements.identity import is_intact
from kernelkb.record.measurements.store import Store

Format = Literal["jsonl", "t4", "flashinfer"]
FORMATS: tuple[Format, ...] = ("jsonl", "t4", "flashinfer")
_CHUNK_SIZE = 1000
_PROMOTION_KEY = "promotion"


class TransferCounts(NamedTuple):
    """What an export or an import did."""

    total: int
    """Measurements in the file that fit."""
    new: int
    """Of these, how many the database had not."""
    left_out: Counter[str]
    """Why others were not taken, with their number."""


def generate_export(store: Store, file_format: Format, left_out: Counter[str]) -> Iterator[str]:
    """Yield the text of an export, piece by piece, in the order of the ids.

    Args:
        store: All of it is exported.
        file_format: Which format.
        left_out: Is told what does not fit, and how often.
    """
    if file_format == "jsonl":
        for one in store.iter_all():
            yield one.model_dump_json(exclude_defaults=True) + "\n"
        for promotion in store.list_promotions(in_force=False):
            plain = promotion.model_dump(mode="json", exclude_defaults=True)
            yield json.dumps({_PROMOTION_KEY: plain}, ensure_ascii=False) + "\n"
        return
    fits = t4.is_exportable if file_format == "t4" else flashinfer_traces.is_exportable
    fitting = _filter_exportable(store, fits, left_out)
    if file_format == "t4":
        yield t4.format_t4(fitting)
    else:
        for one in fitting:
            yield json.dumps(flashinfer_traces.build_trace(one), ensure_ascii=False) + "\n"


def _filter_exportable(
    store: Store, is_exportable: Any, left_out: Counter[str]
) -> Iterator[Measurement]:
    for one in store.iter_all():
        if is_exportable(one):
            yield one
        else:
            left_out[f"a {one.kind} does not fit"] += 1


def import_records(store: Store, path: Path, defaults: Mapping[str, str]) -> TransferCounts:
    """Add what a file holds; which format it has shows in its first line.

    What was taken before a line that is wrong stays: mended and imported again, the file gives the
    rest, for nothing is there twice.

    Args:
        store: Where it goes.
        path: The file.
        defaults: Kernel, workload, device and target for results of T4 that do not name them.

    Raises:
        BadValueError: It cannot be read, or a line is something else.
        DatabaseError: It could not be written.
    """
    left_out: Counter[str] = Counter()
    count = new = 0
    read = _read_records(path, defaults)
    while batch := list(islice(read, _CHUNK_SIZE)):
        left_out.update(one for one in batch if isinstance(one, str))
        kept = [one for one in batch if isinstance(one, Measurement)]
        new += store.add(kept)
        count += len(kept)
        store.add_promotions(one for one in batch if isinstance(one, Promotion))
    return TransferCounts(count, new, left_out)


def _read_records(
    path: Path, defaults: Mapping[str, str]
) -> Iterator[Measurement | Promotion | str]:
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline()
            file.seek(0)
            if _is_json_line(first):
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield _parse_line(line, f"{path}:{number}")
            else:
                yield from t4.iter_t4_measurements(_parse_t4(file.read(), path), defaults)
    except (OSError, UnicodeDecodeError) as error:
        raise BadValueError(f"cannot read {path}: {error}") from error
    except ValueError as error:
        raise BadValueError(f"{path}: {error}") from error


def _is_json_line(first: str) -> bool:
    """Say whether a file's first line is a record of its own, and not the begin of a document."""
    try:
        found = json.loads(first)
    except ValueError:
        return False
    return isinstance(found, dict) and "results" not in found


def _parse_t4(text: str, path: Path) -> T4File:
    try:
        return T4File.model_validate_json(text)
    except ValidationError as error:
        raise BadValueError(
            f"{path} is neither JSON Lines of kb export or of FlashInfer-Bench, nor T4: "
            f"{_describe_first_error(error)}"
        ) from error


def _parse_line(line: str, where: str) -> Measurement | Promotion | str:
    try:
        found = json.loads(line)
        if "definition" in found:
            return flashinfer_traces.convert_trace(SolvedTrace.model_validate(found))
        if _PROMOTION_KEY in found:
            return Promotion.model_validate(found[_PROMOTION_KEY])
        one = Measurement.model_validate(found)
    except ValidationError as error:
        raise BadValueError(
            f"{where}: is no measurement: {_describe_first_error(error)}"
        ) from error
    except (ValueError, TypeError) as error:
        raise BadValueError(f"{where}: is no measurement: {error}") from error
    if not is_intact(one):
        raise BadValueError(f"{where}: {one.id} was changed since it was measured; export it again")
    return one


def _describe_first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'file'}: {first['msg'].lower()}"
