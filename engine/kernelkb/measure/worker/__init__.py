"""Code of the child processes that load torch: the judge, the runners, and jobs without a verdict.

Their interpreter may be another one than ours (KB_PYTHON), without our dependencies: these modules
import the standard library, torch, and each other.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def import_quickly() -> Iterator[None]:
    """Collect no garbage in the block, and leave out what it has imported from later collections.

    Importing torch makes 160,000 objects, all of which stay; looking at them again and again
    takes a tenth of its time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
