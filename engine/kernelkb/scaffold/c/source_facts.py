"""What a C++ or CUDA file holds besides the function to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kernelkb.scaffold.c.c_declarations import Declaration
from kernelkb.scaffold.c.launch_sites import LaunchSite


class SourceFacts(NamedTuple):
    """What a C++ file holds besides the function to call."""

    declarations: tuple[Declaration, ...]
    sites: tuple[LaunchSite, ...]
    constants: Mapping[str, str]
    """Macros and global constants, by name; the value as written."""
    instantiations: Mapping[str, tuple[str, ...]]
    """Template arguments of explicit instantiations, by the function's name."""
    aliases: Mapping[str, str]
    """The type that each typedef or using names."""
    enumerations: frozenset[str] = frozenset()
    """Names of its enumeration types."""
    outer_constants: Mapping[str, str] = {}
    """Integer constants of files that launch its kernels, which a launcher does not see."""
    records: Mapping[str, tuple[str, int]] = {}
    """Structures whose members have one type: that type, and how many there are."""
