"""Reads a binary report (.ncu-rep) to launches, with the ncu-report package or the ncu command."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.errors import KbError
from kernelkb.installing import format_install_command
from kernelkb.profiles.launch import (
    NcuRule,
    ProfiledLaunch,
    RawName,
    parse_rule_estimate,
    split_instance,
)
from kernelkb.profiles.ncu_csv import read_details_page, read_raw_page
from kernelkb.profiles.reader_process import ReaderProcess, has_reader, read_in_process
from kernelkb.profiles.report_code import ReportImages


class LoadedReport(NamedTuple):
    """A report that was loaded."""

    launches: Launches
    images: ReportImages


class Launches:
    """The launches of a report, as the ncu-report package has them; each is loaded when asked for.

    Loading one takes up to a tenth of a second, and the package does not keep it.
    """

    def __init__(self, context: Any) -> None:
        """List the launches of a report that was loaded."""
        self._context = context  # what it returns does not keep it alive
        ranges = [context.range_by_idx(number) for number in range(context.num_ranges())]
        self._places = [(part, at) for part in ranges for at in range(part.num_actions())]
        self._loaded: dict[int, Any] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)

    def load(self, index: int) -> Any:
        """Return one of them."""
        if index not in self._loaded:
            part, at = self._places[index]
            self._loaded[index] = part.action_by_idx(at)
        return self._loaded[index]


def load_report(path: Path) -> LoadedReport:
    """Return a report, loaded again only if it was written since.

    Raises:
        ImportError: The ncu-report package is not installed.
    """
    status = path.stat()
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)  # threads of benchmarks/zoo read several at once
def _load(path: Path, _written_ns: int, _size: int) -> LoadedReport:
    context = importlib.import_module("ncu_report").load_report(str(path))
    return LoadedReport(Launches(context), ReportImages(path))


def start_disassembly(path: Path) -> None:
    """Start to disassemble the code of a report in this process, if it is little."""
    load_report(path).images.start_small()


MAGIC = b"NVR\0"
"""First bytes of a ``.ncu-rep`` file."""
COMPRESSED_MAGIC = b"\x28\xb5\x2f\xfd"
"""Of a ``.ncu-repz`` file, which is compressed with Zstandard; the reader unpacks it."""
_TIMEOUT_S = 120.0
"""Maximum duration of one export by ncu."""
_CSV_CURE = (
    "or write a CSV page where ncu is installed: "
    "ncu --import REPORT --csv --page raw --print-units base"
)


def read_binary(
    path: Path, wanted: Sequence[RawName], ncu: str | None, reader: ReaderProcess | None = None
) -> list[ProfiledLaunch]:
    """Return every launch in a ``.ncu-rep`` file; one that is damaged has no name.

    Args:
        path: The file.
        wanted: Metrics to read, with their raw names.
        ncu: Path of the ncu command, used if the ``ncu-report`` package is not installed; or None.
        reader: A process for this and later calls; by default one for this call.

    Raises:
        KbError: No reader is installed, or it fails on the file, or ncu finds no launch there.
    """
    if has_reader():
        if reader is not None:
            reader.call(start_disassembly, path)
        return read_in_process(_read_launches, path, wanted, reader=reader)
    if ncu is None:
        gap = "reading a .ncu-rep file takes the ncu-report package or ncu itself"
        raise KbError(f"{gap}: {format_install_command('reports')}, {_CSV_CURE}")
    return _read_with_ncu(path, wanted, ncu)


def _read_launches(path: Path, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    reader = importlib.import_module("ncu_report")
    launches = load_report(path).launches
    return [_build_launch(reader, launches.load(at), wanted) for at in range(len(launches))]


def _build_launch(reader: Any, action: Any, wanted: Sequence[RawName]) -> ProfiledLaunch:
    shape = (_read_shape(action, "launch__grid_dim"), _read_shape(action, "launch__block_dim"))
    device = action.metric_by_name("device__attribute_display_name")
    return ProfiledLaunch(
        action.name(action.NameBase_DEMANGLED) or "",
        dict(_iter_metrics(action, wanted)),
        str(device.value()) if device is not None else "",
        shape,
        tuple(_iter_rules(reader, action)),
    )


def _read_shape(action: Any, name: str) -> str:
    found = [action.metric_by_name(f"{name}_{axis}") for axis in "xyz"]
    return "" if None in found else f"({', '.join(str(one.value()) for one in found)})"


def _iter_metrics(action: Any, wanted: Sequence[RawName]) -> Iterator[tuple[str, float]]:
    for one in wanted:
        for name in one.names:
            counter, label = split_instance(name)
            metric = action.metric_by_name(counter)
            value = _read_value(metric, label) if metric is not None else None
            finite = isinstance(value, int | float) and value - value == 0
            known = one.to_metric_unit(value if finite else None, metric.unit() if finite else "")
            if known is not None:
                yield one.metric, known
                break


def _read_value(metric: Any, label: str) -> Any:
    """Return the value of a metric, or of its instances with a label: 0 if none has it."""
    if not label:
        return metric.value() if metric.has_value() else None
    labels = metric.correlation_ids() if metric.num_instances() else None
    if labels is None:
        return None
    found = (at for at in range(metric.num_instances()) if labels.as_string(at) == label)
    return sum(metric.as_uint64(at) for at in found)


def _iter_rules(reader: Any, action: Any) -> Iterator[NcuRule]:
    for row in action.rule_results_as_dicts():
        message = row.get("rule_message", {})
        says = ": ".join(part for part in (message.get("title"), message.get("message")) if part)
        if not says:
            continue
        guess = row.get("speedup_estimation", {})
        scope = "global" if guess.get("type") == reader.SpeedupType_GLOBAL else "local"
        yield NcuRule(
            row["rule_identifier"],
            _strip_links(says),
            *parse_rule_estimate(guess.get("speedup"), scope),
        )


def _strip_links(text: str) -> str:
    """Return a message with ncu's links, ``@section:Name:text@``, replaced by their text."""
    return re.sub(r"@(?:section|url|source):[^:@]*:([^@]*)@", r"\1", text)


def _read_with_ncu(path: Path, wanted: Sequence[RawName], ncu: str) -> list[ProfiledLaunch]:
    raw = _export_page(path, ncu, "raw", "--print-units", "base")
    details = read_details_page(_export_page(path, ncu, "details"), wanted)
    launches = read_raw_page(raw, wanted)
    if len(details) != len(launches):
        return launches
    return [one._replace(rules=other.rules) for one, other in zip(launches, details, strict=True)]


def _export_page(path: Path, ncu: str, page: str, *options: str) -> str:
    words = [ncu, "--import", str(path), "--csv", "--page", page, *options]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KbError(f"ncu could not read {path}: {error}") from error
    if '"Kernel Name"' not in done.stdout:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise KbError(f"ncu found no launch in {path}: {said[-1] if said else 'it said nothing'}")
    return done.stdout
