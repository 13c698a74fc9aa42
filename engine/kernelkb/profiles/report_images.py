"""Disassembles the images in a report in the background, each once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

from kernelkb.profiles.disassembler import disassemble, iter_cubins
from kernelkb.sass.function import SassFunction

_WORKERS = 4
_SMALL_BYTES = 64 * 2**10
"""Of an image; disassembling one whole takes as long as starting nvdisasm (0.6 s, two cores)."""
_MAX_FORESEEN = 4
"""Images; of a report with more, not all are needed."""


class _Run(NamedTuple):
    """A run of nvdisasm on an image."""

    functions: Future[list[SassFunction]]
    names: frozenset[str] | None
    """Mangled, of what it disassembles; None: of all."""


class ReportImages:
    """The images with machine code in a report."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet; ``path`` is the report."""
        self._path = path
        self._pool = ThreadPoolExecutor(_WORKERS)  # each waits for a process
        self._runs: dict[bytes, _Run] = {}

    def start_small(self) -> None:
        """Start to disassemble them all if they are few and small, before it is asked for."""
        images = self._read(b"")
        if len(images) <= _MAX_FORESEEN and all(len(one) <= _SMALL_BYTES for one in images):
            for image in images:
                self._start(image, frozenset())

    def start(self, names: Collection[str]) -> None:
        """Start to disassemble functions, given by their mangled names: one run for each image."""
        held: dict[bytes, set[str]] = {}
        for name in names:
            for image in self._read(name.encode()):
                held.setdefault(image, set()).add(name)
        for image, own in held.items():
            self._start(image, frozenset(own))

    def find(self, name: str) -> Iterable[Future[list[SassFunction]]]:
        """Yield what each image that holds a name disassembles to; others may be among it."""
        for image in self._read(name.encode()):
            yield self._start(image, frozenset((name,)))

    def _read(self, name: bytes) -> list[bytes]:
        """Return the images that hold a name; symbols are not parsed: a library has thousands."""
        with self._path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return list(iter_cubins(data, name))

    def _start(self, image: bytes, names: frozenset[str]) -> Future[list[SassFunction]]:
        key = blake2b(image).digest()
        run = self._runs.get(key)
        if run is None or (run.names is not None and not names <= run.names):
            wanted = None if len(image) <= _SMALL_BYTES else names
            functions = self._pool.submit(disassemble, image, None if wanted is None else [*wanted])
            run = self._runs[key] = _Run(functions, wanted)
        return run.functions
