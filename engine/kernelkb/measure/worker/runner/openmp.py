"""Loads torch's OpenMP library, which binds threads to cores, before torch; without torch."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def load_openmp_first() -> Iterator[None]:
    """Load the library; the block, which imports what the runner needs, may use all cores.

    The library binds this thread to the first core of ``OMP_PLACES``, which is the same for all
    runners, so their imports would wait for each other. Code that uses OpenMP without torch gets
    the same library as the rivals. Where torch comes with another one, importing torch binds.
    """
    own_cores = os.sched_getaffinity(0)
    _load_openmp()
    bound = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own_cores)
    try:
        yield
    finally:
        if bound != own_cores:
            os.sched_setaffinity(0, bound)


def _load_openmp() -> None:
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        with suppress(OSError):  # a build of torch with another OpenMP library
            ctypes.CDLL(str(Path(torch.origin).parent / "lib" / "libgomp.so.1"), ctypes.RTLD_GLOBAL)
