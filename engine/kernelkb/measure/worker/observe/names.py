"""Names in the observed program: what ``--op`` means, and where a module is from."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

_TORCH_OPERATIONS = "torch.ops."
_SHORT_NAMES = {"F.": "torch.nn.functional.", "nn.functional.": "torch.nn.functional."}

_main_files: list[str] = []
"""At most one: the program's main script, once it is known."""


class OperationName(NamedTuple):
    """A name as it was given: ``my_op``, ``module:function``, ``a.b.function``, ``ns::op``."""

    text: str
    is_torch_operation: bool
    """Whether it names an operation of torch's dispatcher, and nothing else."""
    module: str
    """Empty: any, or a part of ``path``."""
    path: str
    """The function, below its class if it has one; dotted."""
    is_whole_path: bool
    """Whether ``path`` is all of the name below the module."""

    @property
    def last(self) -> str:
        """The function's own name."""
        return self.path.rpartition(".")[2]

    @property
    def is_bare(self) -> bool:
        """Whether it names no module, namespace or class."""
        return not self.module and "." not in self.path

    def matches_operation(self, namespace: str, name: str, overload: str) -> bool:
        """Return whether an operation of torch's dispatcher is meant."""
        if not self.is_torch_operation:
            return self.module == "" and self.path == name and namespace != "aten"
        return self.module == namespace and self.path in (name, f"{name}.{overload}")

    def matches_function(self, module: str, qualname: str) -> bool:
        """Return whether a function of a module is meant.

        Args:
            module: Its dotted name; for the program's main script also by the script's own name.
            qualname: As Python has it, such as ``Block.forward``.
        """
        if self.is_torch_operation:
            return False
        if self.is_whole_path:
            return self.path == qualname and f".{module}".endswith(f".{self.module}")
        return f".{module}.{qualname}".endswith(f".{self.path}")


def parse_operation(text: str) -> OperationName:
    """Return what a name given as ``--op`` means."""
    name = text.strip()
    for short, whole in _SHORT_NAMES.items():
        if name.startswith(short):
            name = whole + name.removeprefix(short)
    if name.startswith(_TORCH_OPERATIONS):
        namespace, _, path = name.removeprefix(_TORCH_OPERATIONS).partition(".")
        return OperationName(text, True, namespace, path, True)
    if "::" in name:
        namespace, _, path = name.partition("::")
        return OperationName(text, True, namespace, path, True)
    module, colon, path = name.rpartition(":")
    return OperationName(text, False, module, path, bool(colon))


def find_main_file() -> str:
    """Return the path of the program's main script; empty where there is none.

    Python takes the path off the module when the script ends, before the last record is written.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file and not _main_files:
        _main_files.append(str(Path(file).resolve()))
    return _main_files[0] if _main_files else ""


def name_module(module: str) -> str:
    """Return a module's name as users know it: the main script by its file's name."""
    if module not in ("__main__", "__mp_main__"):
        return module
    return Path(find_main_file()).stem or "__main__"


def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed package or to Python itself."""
    if "site-packages" in file or "dist-packages" in file:
        return True
    return file.startswith((f"{Path(os.__file__).parent}{os.sep}", "<"))


def is_own(file: str) -> bool:
    """Return whether a library belongs to neither Python nor an installed package."""
    return not is_installed(file) and "lib-dynload" not in file
