"""Reads the text files of a task, and writes Python files beside them in a kernel folder."""

from __future__ import annotations

from pathlib import Path

from kernelkb.errors import BadValueError


def read_task_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        BadValueError: It cannot be read, or is no UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadValueError(f"{path} is no text: {error}") from error


_LOAD_SIBLING = """\
import importlib.util
import sys
from pathlib import Path


def _load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"kb_{path.parent.name}_{name}", path)
    if spec.name not in sys.modules:
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules[spec.name]


"""


def make_adapter(summary: str, body: str) -> str:
    """Return a module whose body loads files beside it by ``_load("name")``.

    Args:
        summary: Its docstring, one line.
        body: Its statements.
    """
    return f'"""{summary} Written by kb."""\n\n{_LOAD_SIBLING}{body}'


def make_case_file(cases: str, index: int) -> str:
    """Return a module whose ``get_inputs`` are one item of ``get_all_inputs`` of another file.

    Args:
        cases: That file's name, without ``.py``.
        index: Which item, from 0.
    """
    body = (
        'Model = _load("task").Model\n'
        'get_init_inputs = _load("task").get_init_inputs\n\n\n'
        f'def get_inputs():\n    return _load("{cases}").get_case_inputs({index})\n'
    )
    return make_adapter("One further case of a task.", body)
