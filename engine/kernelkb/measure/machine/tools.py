"""Finds compilers, ninja and the programs of the CUDA toolkit, and asks for their versions."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache


def find_cxx() -> str | None:
    """Return the C++ compiler: CXX when it is set, else the first of c++, g++, clang++."""
    chosen = os.environ.get("CXX")
    names = (chosen,) if chosen else ("c++", "g++", "clang++")
    return next((path for name in names if (path := shutil.which(name))), None)


def find_nvcc() -> str | None:
    """Return nvcc: of CUDA_HOME when that is set, else of PATH, else of /usr/local/cuda."""
    home = os.environ.get("CUDA_HOME")
    if home:
        return shutil.which("nvcc", path=f"{home}/bin")
    return shutil.which("nvcc") or find_cuda_tool("nvcc")


def find_cuda_tool(name: str) -> str | None:
    """Return a program of the CUDA toolkit, such as ncu or compute-sanitizer."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def find_ninja() -> str | None:
    """Return ninja: of the Python package, else of PATH."""
    try:
        from ninja import BIN_DIR
    except ImportError:
        return shutil.which("ninja")
    return shutil.which("ninja", path=BIN_DIR) or shutil.which("ninja")


@cache
def query_version(program: str) -> str:
    """Return the line of a program's ``--version`` that holds the version."""
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    versions = [line for line in lines if "release" in line or line.startswith("Version")]
    return (versions or lines or ["no version given"])[0]
