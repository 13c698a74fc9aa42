"""Names and lines that every drafted launcher needs."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from kernelkb.loading.kernel_files import to_snake_case
from kernelkb.scaffold.draft.call_signature import Parameter

_RESERVED_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})


def to_field_name(text: str) -> str:
    """Return a C name as a lower-case identifier that neither Python nor YAML reserves."""
    name = to_snake_case(text)
    return f"{name}_" if name in _RESERVED_NAMES else name


def assign_field_names(names: Iterable[str]) -> dict[str, str]:
    """Map each C name to a distinct field name: C tells ``N`` from ``n``, kernel.yaml does not."""
    fields: dict[str, str] = {}
    for name in names:
        field = to_field_name(name)
        while field in fields.values():
            field += "_"
        fields[name] = field
    return fields


def make_start_input(output: Parameter) -> Parameter:
    """Return an input that holds the initial values of an output that the kernel also reads."""
    return output._replace(name=f"{output.name}_start", role="input", is_certain=True)


def draft_include(include: str, *, has_main: bool = False) -> str:
    """Return the lines that include a source unchanged, its ``main`` renamed if it has one."""
    if not has_main:
        return f'#include "{include}"\n'
    return f'#define main kb_hidden_main\n#include "{include}"\n#undef main\n'


def name_including_file(path: str) -> str:
    """Return the name of the file beside kernel.yaml that includes another source."""
    words = "_".join(PurePosixPath(path).with_suffix("").parts).replace(".", "")
    return f"{to_snake_case(words)}{PurePosixPath(path).suffix}"


def draft_including_files(paths: Sequence[str]) -> dict[str, str]:
    """Return files that include other sources of a kernel, which are compiled with it."""
    return {name_including_file(path): draft_include(path) for path in paths}


def hide_module(include: str) -> str:
    """Return lines that include a source without the Python module that it may define."""
    return f"""\
// The source's own module, if it has one, is left out.
#pragma push_macro("PYBIND11_MODULE")
#undef PYBIND11_MODULE
#define PYBIND11_MODULE(name, variable) \\
  [[maybe_unused]] static void kb_hide_module(pybind11::module_& variable)
{include}#pragma pop_macro("PYBIND11_MODULE")
"""
