"""Values of tensors: in files, and in words where the speed of a kernel may depend on them.

A file is a safetensors file, data without code: eight bytes with the length of a JSON header, the
header, and the bytes of all tensors (https://huggingface.co/docs/safetensors, read 2026-11-26).
"""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernelkb.measure.worker.shared.messages.specs import DataSummary

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_MAX_HEADER_BYTES = 100 * 2**20
DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}

_MAX_WHOLE = 2**20
"""Values up to which all are looked at one by one."""
_SAMPLE = 2**18
"""Of a larger array, as many are: from windows all over it."""
_WINDOW = 1024
"""Neighbours in a window: a multiple of a warp."""
_MAX_STEPS = 2**24
"""Values up to which all steps from one to the next are looked at."""
_CHUNK = 2**19
"""Values that one pass takes at a time: what the caches of a core hold."""
_MATRIX_ELEMENTS = 2**22
"""Of a stack of masks, the first ones of so many elements are looked at."""
_WARP = 32
_MAX_GROUPS = 4096
"""Warps whose values are counted: the mean of so many is off by less than 1 %."""
_LINE_BYTES = 128
_TILE = 64
"""Rows and columns of the tiles of a mask: those of a block of attention."""
_FEW = 100
"""Below so many rows or different values, 1 % of them is no group."""
_LOWEST_MASK = -1e4
"""From here down a float among zeros masks what it is added to."""
_FIT, _PAIR_FIT = 2.0, 1.25
"""An array is the one that ids point into if they reach more than 1/2 of its rows; of blocks and
their slots, as one axis, nearly all."""
_MIN_LENGTHS = 4
"""Of fewer values, the sum may be the size of an array by chance."""
_MAX_CLASSES = 64
"""Different values up to which integers that point into no array may choose a branch."""
_ZIPF_RANKS, _ZIPF_COUNT, _ZIPF_FIT = 20, 10, 0.97
"""Least values, how often each comes, and the share of the variance that the line explains."""
_RUN = 1.5
"""Mean length from which runs are worth a word; also of the ratio within a warp."""
_PLAIN_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_OFFSET_NAME = re.compile(
    r"offset|indptr|row_?ptr|crow|ccol|_ptr|^ptr|starts?$|cu_?seq|cum|splits|bounds", re.IGNORECASE
)
_LENGTH_NAME = re.compile(
    r"(^|_)(seq|kv|q|row|context|ctx)?_?(lens?|lengths?|sizes|degrees?|counts)$|^num_|seqused",
    re.IGNORECASE,
)


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors of any strides and device; the file appears complete, by a rename.

    Raises:
        KeyError: A dtype that the format or a kernel.yaml has no name for.
    """
    header: dict[str, Any] = {}
    arrays = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    offset = 0
    for name, array in arrays.items():
        entry = {"dtype": DTYPE_NAMES[array.dtype], "shape": list(array.shape)}
        header[name] = {**entry, "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    scratch = path.with_suffix(".tmp")
    with scratch.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
        for array in arrays.values():
            file.write(ctypes.string_at(array.data_ptr(), array.nbytes) if array.nbytes else b"")
    scratch.replace(path)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, on the CPU, by name.

    Raises:
        ValueError: It is no safetensors file, or one that is cut off.
    """
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(data) < start or length > _MAX_HEADER_BYTES:
        raise ValueError(f"{path.name} is not a safetensors file, or it is cut off")
    try:
        header = json.loads(bytes(data[_LENGTH_BYTES:start]))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _read_entry(data, start, entry) for name, entry in entries.items()}
    except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path.name} is not a safetensors file: {error}") from error


def _read_entry(data: bytearray, start: int, entry: Mapping[str, Any]) -> torch.Tensor:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    first, last = entry["data_offsets"]
    if start + last > len(data) or first < 0:
        raise ValueError("it is cut off")
    if first == last:
        return torch.empty(shape, dtype=dtype)
    # A copy: elements may lie at addresses that are no multiple of their size.
    part = bytearray(data[start + first : start + last])
    return torch.frombuffer(part, dtype=dtype).reshape(shape)


class ArrayPlace(NamedTuple):
    """An array that ids may point into."""

    name: str
    shape: tuple[int, ...]
    item_bytes: int
    is_output: bool
    is_table: bool
    """Of floats, or counts: what ids of one byte are taken to point into."""


class _PointedRows(NamedTuple):
    """The rows that ids point to."""

    name: str
    row_count: int
    row_bytes: int
    """0 where each id points into another part of the array: neighbours share no rows."""
    is_output: bool


class _Words(NamedTuple):
    """What is said of an array, and its numbers."""

    role: Any
    parts: list[str]
    metrics: dict[str, float]


def describe_data(
    inputs: Sequence[tuple[str, torch.Tensor]], outputs: Sequence[ArrayPlace] = ()
) -> list[DataSummary]:
    """Describe the inputs that are ids, offsets, lengths or masks; others are left out.

    The same values give the same words. An array of 100 million values takes about 1 s.

    Args:
        inputs: Names and tensors, of any shape, dtype, strides and device.
        outputs: Which ids may point into, too.
    """
    own = (make_place(name, t.shape, t.dtype, is_output=False) for name, t in inputs)
    places, found = [*own, *outputs], []
    for name, tensor in inputs:
        try:
            with torch.no_grad():
                words = _describe_array(name, tensor.detach(), places)
        except (RuntimeError, TypeError):  # torch lacks an operation for its dtype or layout
            continue
        if words is not None:
            found.append(_make_summary(name, tensor, words))
    return found


def make_place(
    name: str, shape: Sequence[int], dtype: torch.dtype, *, is_output: bool
) -> ArrayPlace:
    """Return what is to be known of an array that ids may point into."""
    is_table = dtype.is_floating_point or (is_output and len(shape) == 1)
    return ArrayPlace(name, tuple(shape), dtype.itemsize, is_output, is_table)


def _make_summary(name: str, tensor: torch.Tensor, words: _Words) -> DataSummary:
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = ",".join(f"{size:,}" if tensor.dim() == 1 else str(size) for size in tensor.shape)
    says = f"{name} {dtype}[{shape}]: {'; '.join(words.parts)}"
    return {"name": name, "role": words.role, "says": says, "metrics": words.metrics}


def _describe_array(name: str, tensor: torch.Tensor, places: Sequence[ArrayPlace]) -> _Words | None:
    """Return what is said of an array; None where no speed depends on its values."""
    array = _drop_repeated_axes(tensor)
    if array.is_floating_point():
        return _describe_float_mask(array)
    if array.is_complex():
        return None
    if array.numel() == 0:
        return _Words("mask" if array.dtype == torch.bool else "ids", ["empty"], {})
    if array.dtype == torch.bool:
        return _describe_mask(array)
    flat = array.reshape(-1)
    span = _find_span(flat)
    if len(flat) == 1:
        return _Words("ids", [f"{span.low:,}"], {})
    if span.low == 0 and span.high == 1 and not _LENGTH_NAME.search(name):
        return _describe_mask(array != 0)
    sizes = {size for place in places if place.name != name for size in place.shape}
    is_named = bool(_OFFSET_NAME.search(name))
    is_span = span.low == 0 and 1 < span.high in sizes
    if span.is_rising and span.high > span.low and (is_named or is_span):
        return _describe_lengths(_take_steps(flat), span.largest_step, "offsets", len(flat) - 1)
    if span.low >= 0 and (_LENGTH_NAME.search(name) or _are_lengths(flat, span, sizes)):
        return _describe_lengths(_take_sample(flat), span.high, "lengths", len(flat))
    return _describe_ids(name, array, span, places)


def _drop_repeated_axes(tensor: torch.Tensor) -> torch.Tensor:
    """Return an array without the axes along which it repeats, as ``expand`` makes them."""
    for axis in reversed(range(tensor.dim())):
        if tensor.stride(axis) == 0 and tensor.shape[axis] > 1:
            tensor = tensor.select(axis, 0)
    return tensor


class _Span(NamedTuple):
    """Of all values of an array."""

    low: int
    high: int
    is_rising: bool
    """No value is less than the one before."""
    largest_step: int
    """From one to the next."""


def _find_span(flat: torch.Tensor) -> _Span:
    low, high, is_rising, largest = 2**63 - 1, -(2**63), True, 0
    has_steps = len(flat) <= _MAX_STEPS
    for start in range(0, len(flat), _CHUNK):
        chunk = flat[start : start + _CHUNK + 1]  # with the next one's first
        if chunk.dtype not in _PLAIN_INTEGERS:
            chunk = chunk.to(torch.int64)
        first, last = (int(value) for value in chunk.aminmax())
        low, high = min(low, first), max(high, last)
        if has_steps and is_rising and len(chunk) > 1:
            least, most = (int(value) for value in chunk.to(torch.int64).diff().aminmax())
            is_rising, largest = least >= 0, max(largest, most)
    if not has_steps:
        is_rising = bool((_take_sample(flat).diff() >= 0).all())
        largest = int(_take_steps(flat).max())
    return _Span(low, high, is_rising, largest)


def _are_lengths(flat: torch.Tensor, span: _Span, sizes: set[int]) -> bool:
    """Return whether the values add up to the size of another array."""
    if span.is_rising or not _MIN_LENGTHS <= len(flat) <= _MAX_WHOLE:
        return False
    total = int(flat.sum(dtype=torch.int64))
    return total in sizes and span.high < total


def _iter_windows(count: int) -> Iterator[slice]:
    """Yield all of an array, or windows all over it."""
    if count <= _MAX_WHOLE:
        yield slice(0, count)
        return
    windows = _SAMPLE // _WINDOW
    last = count - _WINDOW
    for at in range(windows):
        start = last * at // (windows - 1)
        yield slice(start, start + _WINDOW)


def _take_sample(flat: torch.Tensor) -> torch.Tensor:
    """Return values in their order, on the CPU; all of a small array."""
    parts = [flat[window] for window in _iter_windows(len(flat))]
    sample = torch.cat(parts).cpu() if len(parts) > 1 else parts[0].cpu()
    return sample if sample.is_floating_point() else sample.to(torch.int64)


def _take_steps(flat: torch.Tensor) -> torch.Tensor:
    """Return differences of neighbours, in their order; all of a small array."""
    windows = _iter_windows(len(flat) - 1)
    parts = [flat[one.start : one.stop + 1].to(torch.int64).diff() for one in windows]
    return torch.cat(parts).cpu()


def _name_sample(taken: int, count: int) -> list[str]:
    return [f"in a sample of {taken:,}"] if taken < count else []


def _describe_lengths(lengths: torch.Tensor, longest: int, role: str, count: int) -> _Words:
    """Say how long rows are, by all lengths or a sample, and by the longest and count of all."""
    low, mean = int(lengths.min()), float(lengths.to(torch.float64).mean())
    if longest == low:
        return _Words(role, [f"rows of {low:,} each"], {"longest_row_ratio": 1.0} if low else {})
    ordered = lengths.sort(descending=True).values
    median = int(ordered[len(ordered) // 2])
    ratio = longest / mean if mean else math.inf
    parts = _name_sample(len(lengths), count)
    parts.append(
        f"rows of {low:,} to {longest:,}, median {median:,}, longest {_ratio(ratio)} the mean"
    )
    metrics = {"longest_row_ratio": ratio} if mean else {}
    total = int(ordered.sum())
    if len(lengths) == count and total:
        metrics["longest_row_share"] = longest / total
    if len(ordered) >= _FEW and total:
        share = int(ordered[: len(ordered) // _FEW].sum()) / total
        metrics["longest_rows_share"] = share
        parts.append(f"1 % of rows hold {_share(share)} of the items")
    if empty := int((lengths == 0).sum()):
        parts.append(f"{_share(empty / len(lengths))} are empty")
    if (order := _name_order(lengths)) is not None:
        parts.append(order)
    groups = lengths[: len(lengths) // _WARP * _WARP].view(-1, _WARP).to(torch.float64)
    if len(groups) and mean:
        waits = float(groups.max(dim=1).values.mean()) / mean
        metrics["warp_row_ratio"] = waits
        if waits >= _RUN:
            parts.append(f"the longest of 32 neighbours is {_ratio(waits)} their mean")
    return _Words(role, parts, metrics)


def _name_order(lengths: torch.Tensor) -> str | None:
    steps = lengths.diff()
    if bool((steps <= 0).all()):
        return "longest first"
    return "shortest first" if bool((steps >= 0).all()) else None


def _describe_ids(
    name: str, array: torch.Tensor, span: _Span, places: Sequence[ArrayPlace]
) -> _Words | None:
    """Say how often ids come, in which order, and what 32 neighbours touch."""
    flat, sample = array.reshape(-1), _take_sample(array.reshape(-1))
    valid = sample[sample >= 0]
    absent = len(sample) - len(valid)
    if (absent and len(sample[sample < 0].unique()) > 1) or not len(valid):
        return None  # signed numbers are no ids
    ordered = valid.sort().values
    values, counts = ordered.unique_consecutive(return_counts=True)
    targets = _find_targets(name, array, span.high, places)
    if not targets and not _WARP <= len(valid) > len(values) <= _MAX_CLASSES:
        return None  # numbers to compute with
    parts = _name_sample(len(sample), len(flat))
    parts += _name_counts(values, counts, span, targets)
    if absent:
        parts.append(f"{_share(absent / len(sample))} are {int(sample.min())}")
    parts.append(_name_id_order(sample, span))
    shares = _measure_shares(counts)
    parts += _name_shares(counts, shares)
    metrics: dict[str, float] = {}
    for target in (one for one in targets if one.row_bytes):
        metrics |= _measure_target(sample, target, shares)
        if len(flat) >= _WARP and not target.is_output:
            lines, is_whole = _count_lines(sample, target.row_bytes), len(sample) == len(flat)
            least = _count_lines(ordered, target.row_bytes) if is_whole else 0
            metrics["gather_sorting_ratio"] = lines / (least or _estimate_sorted(len(flat), target))
    parts += _name_neighbours(sample, targets, metrics)
    return _Words("ids", parts, metrics)


def _find_targets(
    name: str, ids: torch.Tensor, high: int, places: Sequence[ArrayPlace]
) -> list[_PointedRows]:
    """Return the input and the output that ids up to ``high`` fit best; none where none does.

    Links within one array point into itself, where they fit no other.
    """
    others = [place for place in places if place.name != name]
    own = [place for place in places if place.name == name]
    if ids.element_size() == 1:  # as likely numbers as ids: a whole table, no axis, has to fit
        size = high + 1
        sized = [one for one in others if size in one.shape and size not in ids.shape]
        tables = [one for one in sized if one.is_table and one.shape[0] == size]
        others, own = [one for one in tables if one.is_output or len(sized) == 1], []
    for candidates in (others, own):
        found: dict[bool, _PointedRows] = {}
        for place in candidates:
            target = _fit(place, ids, high, is_own=place.name == name)
            known = found.get(place.is_output)
            if target is not None and (known is None or target.row_count < known.row_count):
                found[place.is_output] = target
        if found:
            smallest = min(target.row_count for target in found.values())
            return [target for target in found.values() if target.row_count == smallest]
    return []


def _fit(place: ArrayPlace, ids: torch.Tensor, high: int, *, is_own: bool) -> _PointedRows | None:
    """Return the rows of an array, along the axes that ids up to ``high`` fit best.

    These are the first axis, the first two as one, or the next after those that both share.
    """
    shape, fitting = place.shape, []
    shared = next((at for at, n in enumerate(shape) if ids.shape[at : at + 1] != (n,)), 0)
    for first, end in {(0, 1), (0, 2), (shared, shared + 1)}:
        size, is_pair = math.prod(shape[first:end]), end - first == 2
        room = _PAIR_FIT if is_pair else _FIT
        if is_pair and (shared or is_own):
            continue
        if end <= len(shape) and high < size <= room * (high + 1):
            fitting.append((size, first, end))
    if not fitting:
        return None
    size, first, end = min(fitting)
    row_bytes = 0 if first else math.prod(shape[end:]) * place.item_bytes
    return _PointedRows(place.name, size, row_bytes, place.is_output)


def _name_counts(
    values: torch.Tensor, counts: torch.Tensor, span: _Span, targets: Sequence[_PointedRows]
) -> list[str]:
    if len(values) == 1:
        return [f"all {int(values[0]):,}"]
    of = f" of the {targets[0].row_count:,} of {targets[0].name}" if targets else ""
    if len(values) == int(counts.sum()):
        return [f"all different, {span.low:,} to {span.high:,}{of}"]
    return [
        f"{len(values):,} different{of}" if of else f"{len(values):,} different up to {span.high:,}"
    ]


def _measure_shares(counts: torch.Tensor) -> dict[str, float]:
    """Return what share of all the hottest value has, and the hottest 1 % of those that occur."""
    ordered, total = counts.sort(descending=True).values, int(counts.sum())
    shares = {"hottest": int(ordered[0]) / total}
    if len(ordered) >= _FEW:
        shares["hottest_percent"] = int(ordered[: len(ordered) // _FEW].sum()) / total
    return shares


def _name_shares(counts: torch.Tensor, shares: Mapping[str, float]) -> list[str]:
    if len(counts) == 1 or int(counts.max()) == 1:
        return []
    mean = float(counts.to(torch.float64).mean())
    times = int(counts.max()) / mean
    said = f"the hottest is {_share(shares['hottest'])} of all"
    said += f", {_ratio(times)} the mean" if len(counts) < _FEW and times >= _RUN else ""
    parts = [said]
    if "hottest_percent" in shares and times >= _RUN:
        parts.append(f"the hottest 1 % are {_share(shares['hottest_percent'])}")
    if (exponent := _fit_zipf(counts)) is not None:
        parts.append(f"as Zipf's law with exponent {exponent:.1f}")
    return parts


def _fit_zipf(counts: torch.Tensor) -> float | None:
    """Return the exponent of Zipf's law, ``count ~ rank ** -exponent``; None where it fits not."""
    ordered = counts.sort(descending=True).values.to(torch.float64)
    ordered = ordered[ordered >= _ZIPF_COUNT]
    if len(ordered) < _ZIPF_RANKS or float(ordered[0] / ordered[-1]) < _ZIPF_COUNT:
        return None
    x = torch.arange(1, len(ordered) + 1, dtype=torch.float64).log()
    y = ordered.log()
    x, y = x - x.mean(), y - y.mean()
    slope = float((x * y).sum() / (x * x).sum())
    explained = float((x * y).sum() ** 2 / ((x * x).sum() * (y * y).sum()))
    return -slope if explained >= _ZIPF_FIT else None


def _name_id_order(sample: torch.Tensor, span: _Span) -> str:
    steps = sample.diff()
    if bool((steps == 0).all()):
        return "constant"
    equal = len(sample) / (1 + int((steps != 0).sum()))
    rising = len(sample) / (1 + int((steps != 1).sum()))
    if rising == len(sample):
        return "consecutive"
    order = "sorted" if span.is_rising else "unordered"
    if equal >= _RUN:
        return f"{order}, {equal:.3g} equal ones in a row"
    return f"{order}, {rising:.3g} consecutive ones in a row" if rising >= _RUN else order


def _count_distinct(values: torch.Tensor) -> float:
    """Return the mean number of different values among 32 neighbours: at least 32 values."""
    groups = values[: len(values) // _WARP * _WARP].view(-1, _WARP)
    groups = groups[:: math.ceil(len(groups) / _MAX_GROUPS)].sort(dim=1).values
    return 1 + int((groups.diff(dim=1) != 0).sum()) / len(groups)


def _count_lines(sample: torch.Tensor, row_bytes: int) -> float:
    """Return the mean number of lines of 128 bytes that the rows of 32 neighbours lie in."""
    if row_bytes >= _LINE_BYTES:
        return _count_distinct(sample) * math.ceil(row_bytes / _LINE_BYTES)
    return _count_distinct(sample * row_bytes // _LINE_BYTES)


def _estimate_sorted(count: int, target: _PointedRows) -> float:
    """Return the lines that 32 neighbours of ids read, sorted, if all rows came equally often."""
    each = math.ceil(target.row_bytes / _LINE_BYTES)
    total = max(1, target.row_count * min(target.row_bytes, _LINE_BYTES) // _LINE_BYTES)
    read = total * -math.expm1(-count / total)
    return each * min(_WARP, 1 + _WARP * read / count)


def _measure_target(
    sample: torch.Tensor, target: _PointedRows, shares: Mapping[str, float]
) -> dict[str, float]:
    """Return the metrics of ids that read rows of an input, or update those of an output."""
    if target.is_output:
        update = {"hottest_update_share": shares["hottest"]}
        if len(sample) >= _WARP:
            update["warp_update_count"] = _count_distinct(sample)
        return update
    if len(sample) < _WARP:
        return {}
    fewest = math.ceil(_WARP * target.row_bytes / _LINE_BYTES)
    return {"gather_line_ratio": _count_lines(sample, target.row_bytes) / fewest}


def _name_neighbours(
    sample: torch.Tensor, targets: Sequence[_PointedRows], metrics: Mapping[str, float]
) -> list[str]:
    if len(sample) < _WARP:
        return []
    parts = [f"32 neighbours hit {_count_distinct(sample):.3g} different"]
    gathered = next((one for one in targets if one.row_bytes and not one.is_output), None)
    if gathered is not None and gathered.row_bytes < _LINE_BYTES:
        lines = _count_lines(sample, gathered.row_bytes)
        ordered = lines / metrics.get("gather_sorting_ratio", 1.0)
        also = f", sorted {ordered:.3g}" if ordered < lines / _RUN else ""
        parts.append(f"in {lines:.3g} lines of {gathered.name}{also}")
    return [" ".join(parts)]


def _describe_float_mask(array: torch.Tensor) -> _Words | None:
    """Describe floats of two values: 0 and 1, or 0 and one that masks what it is added to."""
    if array.numel() < _WARP:
        return None
    flat = array.reshape(-1)
    if len(flat[:: len(flat) // _WARP].to(torch.float64).unique()) > 2:
        return None
    values = _take_sample(flat).to(torch.float64).unique()
    if len(values) != 2:
        return None
    low, high = (float(value) for value in values)
    if low == 0.0 and high == 1.0:
        return _describe_mask(array != 0)
    return _describe_mask(array == 0) if high == 0.0 and low <= _LOWEST_MASK else None


def _describe_mask(mask: torch.Tensor) -> _Words:
    """Say which share is kept, in which tiles, and how unequal the rows are."""
    kept = int(mask.count_nonzero()) / mask.numel()
    parts = [f"{_share(kept)} kept"]
    metrics = {"mask_kept_share": kept}
    if kept in (0.0, 1.0):
        return _Words("mask", ["none kept" if kept == 0 else "all kept"], metrics)
    if mask.dim() < 2:
        sample = _take_sample(mask.to(torch.uint8))
        mean = len(sample) / (1 + int((sample.diff() != 0).sum()))
        return _Words("mask", [*parts, f"runs of {mean:.3g}"], metrics)
    matrices = mask.reshape(-1, *mask.shape[-2:])
    one = matrices[0]
    if one.shape[0] == one.shape[1] and torch.equal(one, torch.ones_like(one).tril()):
        parts.append("a lower triangle")
    matrices = matrices[: max(1, _MATRIX_ELEMENTS // one.numel())].cpu()
    if min(one.shape) >= _TILE:
        held = _measure_tiles(matrices)
        metrics["mask_tile_share"] = held
        parts.append(f"{_share(held)} of the {_TILE} x {_TILE} tiles hold any")
    rows = matrices.sum(dim=-1)
    low, high = int(rows.min()), int(rows.max())
    parts.append(f"{low:,} to {high:,} a row" if low < high else f"{low:,} in each row")
    return _Words("mask", parts, metrics)


def _measure_tiles(matrices: torch.Tensor) -> float:
    """Return the share of tiles in which anything is kept; the last ones may be smaller."""
    rows, columns = matrices.shape[-2:]
    padding = (0, -columns % _TILE, 0, -rows % _TILE)
    whole = torch.nn.functional.pad(matrices.to(torch.uint8), padding)
    tiles = whole.unflatten(-1, (-1, _TILE)).unflatten(-3, (-1, _TILE))
    return float(tiles.amax(dim=(-3, -1)).to(torch.float32).mean())


def _share(value: float) -> str:
    return f"{100 * value:.{2 if value < 0.995 else 3}g} %"


def _ratio(value: float) -> str:
    return f"{value:,.0f}x" if value >= 10 else f"{value:.2g}x"
