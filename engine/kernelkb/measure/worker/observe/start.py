"""Starts observing in a process of the user's program; ``sitecustomize.py`` runs this file.

The program always goes on: an error of the observer is a file beside the calls.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import Any

_PACKAGE_FOLDER = Path(__file__).resolve().parents[3]
JOB_VARIABLE = "KB_OBSERVE"
"""Names the file with the job, for every process of the program."""


def start() -> None:
    """Observe from here on what the job names; do nothing where there is no job."""
    job_file = os.environ.get(JOB_VARIABLE)
    if not job_file:
        return
    try:
        _register_engine()
        from kernelkb.measure.worker.observe.observer import start_observer

        start_observer(Path(job_file))
    except Exception:  # the user's program is not to fail by ours
        error_file = Path(job_file).with_name(f"error-{os.getpid()}.txt")
        error_file.write_text(traceback.format_exc(), encoding="utf-8")
    _run_other_customization()


def _register_engine() -> None:
    spec = importlib.util.spec_from_file_location(
        "kernelkb",
        _PACKAGE_FOLDER / "__init__.py",
        submodule_search_locations=[str(_PACKAGE_FOLDER)],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no kernelkb package at {_PACKAGE_FOLDER}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernelkb"] = module
    spec.loader.exec_module(module)


def _run_other_customization() -> None:
    """Import the ``sitecustomize`` that ours hides, as the interpreter would."""
    own_folder = str(Path(os.environ[JOB_VARIABLE]).parent)
    own: Any = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [entry for entry in sys.path if entry != own_folder]
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        if own is not None:
            sys.modules["sitecustomize"] = own


if __name__ == "kernelkb_observe":
    start()
