"""Default values of a drafted call: numbers, template arguments and sizes, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelkb.scaffold.draft.call_signature import Parameter

_NUMBERS = (
    (r"(?:\w*_)?eps(?:ilon)?\w*", "1e-5"),
    (r"(?:\w*_)?(?:p|drop\w*|dropout\w*|beta|offset|start\w*|begin|flag|seed|shift|bias)", "0"),
    (r"(?:\w*_)?(?:dim|axis)", "-1"),
    (r"(?:\w*_)?(?:alpha|a|scale|scaling|factor)", "2"),
)
_INTEGERS = (
    (r"\w*(?:threads?|tpb|bdim)\w*", "256"),
    (r"\w*(?:block|group)_?size\w*", "128"),
    (r"warp_?size", "32"),
    (r"\w*(?:mode|flag|type|kind|offset|start\w*|begin|device\w*|rank|axis)", "0"),
    (r"\w*(?:kernel_?num|version|iters?|iterations|steps?|repeats?|nreps?|stride\w*|pad\w*)", "1"),
)
"""Integers that are options of a call, by their names."""
_FLOATS = ("float", "double", "half", "__half", "T", "scalar_t", "__nv_bfloat16")
_TEMPLATE_NUMBERS = (
    (r"\w*(?:block|threads|nthr|bdim)\w*|nt", "256"),
    (r"\w*(?:warp)\w*", "32"),
    (r"\w*(?:tile|dim|head)\w*", "32"),
    (r"\w*(?:vec|ilp|unroll|items|pack)\w*", "4"),
)
AXIS_SIZES = {
    **dict.fromkeys(("batch", "batch_size", "bs", "b"), 8),
    **dict.fromkeys(("heads", "num_heads", "n_heads", "nheads", "nh", "h", "n_head"), 16),
    **dict.fromkeys(("head_dim", "head_size", "d_head", "headdim", "hd"), 64),
    **dict.fromkeys(("width", "kernel_size", "ksize", "k_width"), 4),
    **dict.fromkeys(("channels", "num_channels"), 64),
    **dict.fromkeys(("rotary_dim",), 64),
}
"""Elements of axes whose name says what they count."""


FUNCTOR = "kb_function"
"""Type that a launcher defines for a parameter that the kernel calls."""
_HOST_NUMBERS = (
    (r"\w*(?:num_?sms?|sm_?count|multi_?proc\w*|sms)", "132"),
    (r"\w*(?:dev|device|gpu)(?:_?id)?", "0"),
    (r"\w*(?:smem|shmem|shared|bytes)\w*", "49152"),
    (r"warp_?size", "32"),
    (r"\w*warps\w*", "8"),
)
"""Integers of a host function that a launch depends on, by their names."""
_THREADS_NAME = re.compile(r"\w*(?:threads?|block_?(?:size|dim|len|x)|bdim|tpb|nthr|cta)\w*|block")
_BLOCKS_NAME = re.compile(r"\w*(?:grid|blocks|bpg|ctas)\w*")


def choose_host_value(name: str, axes: Sequence[str], threads: str) -> str:
    """Return a C expression for an integer of a host function that a launch depends on."""
    bare = name.lower()
    for pattern, value in _HOST_NUMBERS:
        if re.fullmatch(pattern, bare):
            return value
    blocks = f"({axes[0]} + {threads} - 1) / {threads}" if axes else "132"
    if _BLOCKS_NAME.fullmatch(bare):
        return blocks
    if _THREADS_NAME.fullmatch(bare):
        return threads
    return axes[0] if axes else "1"


def find_option(name: str) -> str:
    """Return the value of an integer that is an option by its name; empty for another."""
    bare = name.lower()
    return next((v for pattern, v in _INTEGERS if re.fullmatch(pattern, bare)), "")


def choose_number(parameter: Parameter) -> str:
    """Return a C expression for a scalar parameter; empty for a type of the file's own."""
    kind = parameter.type
    if kind == FUNCTOR:
        return "{}"
    if kind in ("bool", "dim3"):
        return "false" if kind == "bool" else "1"
    vector = re.fullmatch(r"(?:float|double|u?int|half)([234])", kind)
    if vector:
        return f"{{{', '.join(['1'] * int(vector[1]))}}}"
    is_float = kind in _FLOATS or kind.endswith("float")
    if not is_float and not re.fullmatch(r"[\w ]*(?:int|long|short|size_t|char|int\d+_t)", kind):
        return "" if kind else "1"
    name = parameter.name.lower()
    value = next((v for pattern, v in _NUMBERS if re.fullmatch(pattern, name)), "1")
    if is_float:
        return value if kind == "double" else f"{float(value)}f"
    if value in ("0", "-1"):
        return value
    return find_option(name) or "1"


_VECTOR_NAMES = ("w", "weight", "b", "bias", "gamma", "beta", "g", "scale", "scales")
_ROW_NAMES = re.compile(
    r"\w*(?:idx|index|indices|ids|positions?|labels?|targets?|rstd|lse|mean)\w*"
)


def guess_shape(name: str, common: tuple[str, ...]) -> tuple[str, ...]:
    """Return the shape of a tensor that the text does not show, from its name and another's."""
    bare = name.lower().strip("_")
    if bare in _VECTOR_NAMES:
        return common[-1:]
    return common[:1] if _ROW_NAMES.fullmatch(bare) else common


def choose_template_value(kind: str, name: str) -> str:
    """Return an argument for a template parameter: float for a type, else a number by its name.

    Args:
        kind: ``typename``, ``class`` or the type of the number.
        name: The parameter's name.
    """
    if kind.startswith(("typename", "class")):
        return "float"
    if kind == "bool":
        return "false"
    lowered = name.lower()
    return next((v for pattern, v in _TEMPLATE_NUMBERS if re.fullmatch(pattern, lowered)), "1")
