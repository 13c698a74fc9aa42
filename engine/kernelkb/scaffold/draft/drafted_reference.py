"""Drafts reference.py: torch code for operations that are recognised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelkb.loading.kernel_files import FILL_IN_MARK
from kernelkb.scaffold.draft.call_signature import Parameter
from kernelkb.scaffold.draft.kernel_yaml import Draft, format_kernel_yaml
from kernelkb.scaffold.draft.known_operations import recognise_operation

_INTEGERS = ("int", "uint", "bool")


def format_kernel_files(
    draft: Draft, arguments: Sequence[str], expression: str | None
) -> dict[str, str]:
    """Return kernel.yaml, and reference.py where a torch expression is known.

    Args:
        draft: The kernel; without an expression, its variant becomes the reference.
        arguments: As ``draft_reference``.
        expression: As ``draft_reference``.
    """
    if expression is None:
        return {"kernel.yaml": format_kernel_yaml(draft._replace(has_reference=False))}
    return {
        "kernel.yaml": format_kernel_yaml(draft),
        "reference.py": draft_reference(draft.name, arguments, expression),
    }


def draft_reference(name: str, arguments: Sequence[str], expression: str | None) -> str:
    """Return reference.py.

    Args:
        name: The kernel's id, and the function's name.
        arguments: The inputs, in their order.
        expression: Its result in torch; None where it is not known.
    """
    body = f"return {expression}"
    head = f"Torch reference of {name}, drafted by kb init: check it."
    if expression is None:
        head = f"Torch reference of {name}: variants are checked against its outputs."
        body = f'raise NotImplementedError("{FILL_IN_MARK}: write {name} in torch")'
    return f'''\
"""{head}"""

import torch


def {name}({", ".join(arguments)}):
    {body}
'''


def guess_expression(
    names: Sequence[str],
    inputs: Sequence[Parameter],
    outputs: Sequence[Parameter],
    numbers: Sequence[Parameter],
    fields: Mapping[str, str],
) -> str | None:
    """Return the torch expression that one of some names stands for; None for no known one.

    Args:
        names: Of the launcher, its kernels, the file; the first that is recognised counts.
        inputs: Its arrays, in order.
        outputs: What it writes.
        numbers: Its scalars.
        fields: The name of each array in reference.py.
    """
    floats = [p for p in inputs if not p.is_index and not (p.dtype or "").startswith(_INTEGERS)]
    floats = floats or list(inputs)
    for name in names:
        found = recognise_operation(name, floats, outputs, numbers)
        if found is not None:
            return found.format(*(fields[p.name] for p in floats))
    return None
