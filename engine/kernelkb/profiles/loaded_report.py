"""Loads a binary report once for all that a process reads of it."""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.profiles.report_images import ReportImages


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
