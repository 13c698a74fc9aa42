"""A C++ or CUDA source that is mutated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_SKIPPED = re.compile(
    r"(?m)^#.*$|<<<.*?>>>|extern \"C\" int [^{]*\{|__(?:global|device)__ [^{]*\{"
    r"|std::\w+|static_cast<\w+>|0x\w+|\(void\)\w+;|return cuda\w+\(\);|cudaStream_t"
    r"|__shared__ [^;]*;"
)


class CSource(NamedTuple):
    """A C++ or CUDA source, and what its kernel.yaml says of it."""

    text: str
    axes: Mapping[str, int]
    """Size of each axis in the default workload."""
    is_cuda: bool

    def is_skipped(self, start: int, end: int) -> bool:
        """Return whether a span touches a header, a type or a launch's configuration."""
        return any(m.start() < end and start < m.end() for m in _SKIPPED.finditer(self.text))

    def is_in_loop(self, position: int) -> bool:
        """Return whether a position is in the line of a loop's header."""
        return "for (" in self.text[self.text.rfind("\n", 0, position) : position]

    def header_before(self, position: int) -> str:
        """Return the header of the function that a position is in."""
        headers = re.findall(r"(?m)^\S[^;{}]*\([^{;]*\) \{", self.text[:position])
        return headers[-1] if headers else ""

    def loop_variables(self, position: int) -> list[str]:
        """Return names of indices declared before a position, in the same function."""
        start = self.text.rfind("\n}\n", 0, position) + 1
        names = re.findall(r"(?:int64_t|int) (\w+) =", self.text[start:position])
        return list(dict.fromkeys(names))
