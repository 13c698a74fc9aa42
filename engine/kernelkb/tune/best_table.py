"""Reads a file of winners, which a program loads at run time.

Needs the standard library only: copy this file beside a program, or import it from here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict


class BestEntry(TypedDict):
    """The fastest configuration of a variant for one shape on one device."""

    kernel: str
    variant: str
    sizes: dict[str, int]
    """By axis."""
    device: str
    """Name as the driver reports it."""
    driver: str
    configuration: dict[str, int]
    """Macro values to compile with."""
    time_us: float
    verdict: str
    """Of the judge: faster, slower or inconclusive against the kernel's rivals."""


class BestAnswer(NamedTuple):
    """What a table says about one shape."""

    configuration: dict[str, int] | None
    reason: str | None
    """Why there is none; None where there is one."""


def load_table(path: str | Path) -> list[BestEntry]:
    """Return the entries of a file of ``kb tune --table``; none where there is no file.

    Raises:
        ValueError: The file is no such table.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply for a table of kb tune") from error
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list):
        raise ValueError(f"{path} is no table of kb tune")
    return list(content["entries"])


def find_best(
    table: Sequence[BestEntry],
    kernel: str,
    sizes: Mapping[str, int],
    device: str,
    variant: str | None = None,
) -> BestAnswer:
    """Return the fastest configuration for a shape, or why there is none.

    Args:
        table: Of ``load_table``.
        kernel: The kernel's name.
        sizes: By axis; only exactly these count.
        device: Name as the driver reports it; a time on another one says nothing.
        variant: Its id; None: the fastest of all.
    """
    rows = [one for one in table if one["kernel"] == kernel]
    if not rows:
        return BestAnswer(None, f"no entry: {kernel} was not tuned")
    rows = [one for one in rows if variant in (None, one["variant"])]
    if not rows:
        return BestAnswer(None, f"no entry: variant {variant} of {kernel} was not tuned")
    here = [one for one in rows if one["device"] == device]
    if not here:
        devices = ", ".join(sorted({one["device"] for one in rows}))
        return BestAnswer(None, f"no entry: {kernel} was tuned on {devices}, not on {device}")
    same = [one for one in here if one["sizes"] == dict(sizes)]
    if not same:
        shapes = "; ".join(_format_sizes(one["sizes"]) for one in here)
        return BestAnswer(
            None, f"no entry: {kernel} was tuned for {shapes}, not for {_format_sizes(sizes)}"
        )
    return BestAnswer(min(same, key=lambda one: one["time_us"])["configuration"], None)


def _format_sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())
