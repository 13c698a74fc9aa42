"""Writes the kernel of tests/data/planted with one planted error into a project."""

import shutil
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "planted"


def write_planted(project, source, bug, *, language, target="cuda", name="planted", extra=""):
    """Write a kernel folder with one variant, whose source begins with ``BUG``; return its path.

    Args:
        project: The project's folder.
        source: A file of tests/data/planted.
        bug: Number of the error; 0: none.
        language: As kernel.yaml names it.
        target: ``cpu`` or ``cuda``.
        name: Of the kernel.
        extra: Further fields of the variant; ``half`` in the source makes all arrays float16.
    """
    folder = Path(project) / "kernels" / name
    folder.mkdir(parents=True)
    text = (DATA / "planted.yaml").read_text().replace("id: planted\n", f"id: {name}\n", 1)
    for word, value in (("TARGET", target), ("LANGUAGE", language), ("SOURCE", source)):
        text = text.replace(word, value)
    own = (DATA / source).read_text()
    if "const half*" in own:
        text = text.replace("float32", "float16")
    (folder / "kernel.yaml").write_text(text.replace(", summary", f"{extra}, summary"))
    shutil.copy(DATA / "reference.py", folder)
    is_python = source.endswith(".py")
    define = f"BUG = {bug}" if is_python else f"#define BUG {bug}"
    old = "BUG = 0" if is_python else "#pragma once"
    (folder / source).write_text(own.replace(old, define) if is_python else f"{define}\n{own}")
    return folder
