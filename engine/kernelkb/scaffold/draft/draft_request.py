"""What ``kb init`` asks a drafting module for."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.model.base import Target
from kernelkb.scaffold.draft.call_signature import Function, SourceSummary


class DraftRequest(NamedTuple):
    """A function of a source, and the folder that it gets."""

    name: str
    """The kernel's id."""
    function: Function
    """The kernel or launcher to draft for."""
    summary: SourceSummary
    text: str
    """What the source holds."""
    include: str
    """The source's path, relative to the kernel's folder."""
    target: Target
    flags: tuple[str, ...] = ()
    """Compiler flags, such as folders of headers."""
    others: tuple[str, ...] = ()
    """Paths of the files that define the functions it uses and does not define."""
    uses_torch: bool = False
    """Whether the file includes torch's headers: then it is a torch extension."""
    headers: tuple[str, ...] = ()
    """What the project's files hold that the source includes."""
    callers: tuple[str, ...] = ()
    """What files hold that include the source and launch its kernel."""
