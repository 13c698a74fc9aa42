"""Words the command that installs a package: the one place where a cure says ``pip install``.

KernelKB is on no package index, so no cure names it: the packages of an extra are named instead.
"""

from __future__ import annotations

import sys


def format_install_command(extra: str, python: str | None = None) -> str:
    """Return the shell command that installs the packages of an extra of KernelKB.

    Args:
        extra: An extra of ``pyproject.toml``, such as ``tune``.
        python: The interpreter that is to have them; by default the one that runs this.
    """
    from importlib.metadata import PackageNotFoundError, requires  # 10 ms, only for a cure

    try:
        lines = [line.partition(";") for line in requires("kernelkb") or ()]
    except PackageNotFoundError:  # run from a folder of sources
        lines = []
    endings = (f"extra == '{extra}'", f'extra == "{extra}"')
    found = [name.strip() for name, _, marker in lines if marker.strip().endswith(endings)]
    if not found:
        return f"install what pyproject.toml of KernelKB lists for the extra {extra}"
    return format_pip_command(*found, python=python)


def format_pip_command(*requirements: str, python: str | None = None) -> str:
    """Return the shell command that installs packages from an index.

    Args:
        *requirements: Such as ``scipy>=1.13``.
        python: The interpreter that is to have them; by default the one that runs this.
    """
    from shlex import join

    return join([python or sys.executable or "python3", "-m", "pip", "install", *requirements])
