"""Takes the name of a kernel out of the path of its folder or of one of its files. No I/O."""

from __future__ import annotations

import re

_PATH = re.compile(r"[\w.~+/\\:-]+")


def read_kernel_name(text: str) -> str:
    """Return the name in ``kernels/row_softmax``, ``row_softmax/kernel.yaml`` and the like.

    Every command that takes a kernel's name takes it through this function. Text that is no path,
    such as a name or a regular expression, is returned as it is.

    Args:
        text: A name, the path of a kernel's folder below ``kernels/`` or
            ``kernels/zoo/<bottleneck>/``, the path of a file in it, or of any ``kernel.yaml``.
    """
    if not _PATH.fullmatch(text):
        return text
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    if "kernels" in parts[:-1]:
        below = parts[len(parts) - parts[::-1].index("kernels") :]
        return below[2] if below[0] == "zoo" and len(below) > 2 else below[0]
    if len(parts) > 1 and parts[-1] == "kernel.yaml":
        return parts[-2]
    return parts[0] if len(parts) == 1 else text
