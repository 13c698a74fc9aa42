"""Reads spaces whose configurations were all measured, to try a search without a GPU."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.safety.workspace import read_bytes
from kernelkb.tune.space import EnumeratedSpace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RecordedSpace(NamedTuple):
    """A space and the time of each of its configurations."""

    space: EnumeratedSpace
    times: NDArray[np.float64]
    """(configurations,), in the unit of the record; infinity: it failed."""

    @property
    def best(self) -> float:
        """The smallest time."""
        return float(self.times.min())


def read_recorded_space(path: Path) -> RecordedSpace:
    """Read a Kernel Tuner cache or a T4 file, gzipped or not.

    Args:
        path: The file. A cache maps configurations to times under ``cache``; T4 lists
            ``results`` with a ``configuration`` and ``measurements`` each.

    Raises:
        BadValueError: It cannot be read, has neither form, or no configuration succeeded.
    """
    import numpy as np

    try:
        raw = read_bytes(path)
        content = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        results = _list_results(content)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadValueError(
            f"{path} is no recorded space: {error}; Kernel Tuner's cache and T4 files are read"
        ) from error
    if not any(math.isfinite(time) for _, time in results):
        raise BadValueError(f"no configuration of {path} has a time")
    names = tuple(results[0][0])
    values = tuple(tuple(sorted({one[name] for one, _ in results})) for name in names)
    positions = [{value: place for place, value in enumerate(choices)} for choices in values]
    rows = np.array(
        [
            [place[one[name]] for name, place in zip(names, positions, strict=True)]
            for one, _ in results
        ]
    )
    count = math.prod(len(choices) for choices in values)
    times = np.array([time for _, time in results])
    return RecordedSpace(EnumeratedSpace(names, values, rows, count, ()), times)


def _list_results(content: Mapping[str, Any]) -> list[tuple[dict[str, Any], float]]:
    """Return each configuration and its time."""
    if "cache" in content:
        names = content["tune_params_keys"]
        return [
            ({name: one[name] for name in names}, _parse_time(one["time"]))
            for one in content["cache"].values()
        ]
    return [
        (
            one["configuration"],
            _parse_time(one["measurements"][0]["value"])
            if one["invalidity"] == "correct"
            else math.inf,
        )
        for one in content["results"]
    ]


def _parse_time(value: object) -> float:
    """Return a time; what is no number, 0 or huge is the mark of a failed configuration."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    time = float(value) if is_number else math.inf  # type: ignore[arg-type]
    return time if 0 < time < 1e19 else math.inf
