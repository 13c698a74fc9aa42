"""What a C++ or CUDA file holds besides the function to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kernelkb.scaffold.c_declarations import Declaration
from kernelkb.scaffold.launch_sites import LaunchSite


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
