"""Orders the functions of a file: the kernel that is most likely wanted stands first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelkb.scaffold.draft.call_signature import Function

_HELPER = re.compile(
    r"(?:^|_)(?:get|set|init\w*|warm_?up|fill\w*|zero\w*|reset|clear|check\w*|print\w*|verify|test"
    r"|dummy|empty|random\w*|rand|setup|util\w*|helper|is|has|num|calculate|compare|debug)(?:_|$)"
)
"""Words of functions that serve the kernel beside them."""
_BACKWARD = re.compile(r"(?:^|_)(?:backward|bwd|grad\w*|bp|reference|ref|cpu|host)(?:_|$)")


def order_functions(functions: Sequence[Function], stem: str) -> list[Function]:
    """Return functions as a menu lists them; those that are alike keep the file's order.

    Args:
        functions: Those of a file.
        stem: The file's name without its suffix, whose words the wanted kernel has, too.
    """
    wanted = set(_split_name(stem).split("_")) - {"kernel", "kernels", "cuda", "cu", ""}
    return sorted(functions, key=lambda each: _rank(each, wanted))


def _rank(function: Function, wanted: set[str]) -> tuple[bool, bool, bool, bool]:
    words = _split_name(function.name)
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    is_opaque = bool(function.parameters) and not (arrays and all(p.dtype for p in arrays))
    is_foreign = not wanted & {*words.split("_"), words}
    return bool(_HELPER.search(words)), is_opaque, bool(_BACKWARD.search(words)), is_foreign


def _split_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
