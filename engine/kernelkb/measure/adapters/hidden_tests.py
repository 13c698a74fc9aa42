"""Finds the hidden tests of a KernelBench task, in the layout of KernelBench-Verified."""

from __future__ import annotations

import re
from pathlib import Path

from kernelkb.loading.generated_python import make_adapter, make_case_file

CASES_FILE = "hidden_cases.py"
_CASES = """\
_hidden = _load("hidden")
if hasattr(_hidden, "_PROB_PATH"):  # where KernelBench-Verified's files look for their task
    _hidden._PROB_PATH = str(Path(__file__).with_name("task.py"))


def get_all_inputs():
    return _hidden.get_hidden_inputs()


def get_case_inputs(index):
    return get_all_inputs()[index]
"""


def find_hidden_tests(task: Path) -> Path | None:
    """Return the file of a task's hidden tests; None if there is none.

    For ``KernelBench/level1/23_Softmax.py`` that is ``hidden_tests/level1/23_hidden.py`` of the
    same repository, or ``23_hidden.py`` or ``23_Softmax_hidden.py`` beside it.
    """
    task = task.resolve()
    number = re.match(r"\d+", task.stem)
    names = [f"{stem}_hidden.py" for stem in (number and number[0], task.stem) if stem]
    folders = [task.parent, *(p / "hidden_tests" / task.parent.name for p in task.parents[1:3])]
    for path in (folder / name for folder in folders for name in names):
        if path.is_file() and "def get_hidden_inputs" in path.read_text("utf-8", "replace"):
            return path
    return None


def make_hidden_files(text: str) -> dict[str, str]:
    """Return the files that a kernel folder needs for hidden tests, without those of each case.

    Args:
        text: The file with ``get_hidden_inputs``, which goes there as it is.
    """
    return {
        "hidden.py": text,
        CASES_FILE: make_adapter("Further inputs of a task: its hidden tests.", _CASES),
    }


def make_hidden_case_files(count: int) -> dict[str, str]:
    """Return a file for each hidden test, by name and in order."""
    stem = CASES_FILE.removesuffix(".py")
    return {
        f"hidden_{number}.py": make_case_file(stem, number - 1) for number in range(1, count + 1)
    }
