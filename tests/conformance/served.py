"""The product as its users start it, and as the suite needs it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STDIO = [sys.executable, "-c", "from mcp_server.server import main; main()"]


def surroundings(project: Path) -> dict[str, str]:
    """Return the environment of a server that must be this checkout's."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PWD": str(project)}


@contextlib.contextmanager
def open_to_the_suite(project: Path, *options: str) -> Iterator[str]:
    """Serve over HTTP with the token added on the way; yield the URL."""
    words = [sys.executable, str(HERE / "serve.py"), *options]
    with _started(words, project) as url:
        yield url


@contextlib.contextmanager
def _started(words: list[str], project: Path) -> Iterator[str]:
    with subprocess.Popen(
        words,
        cwd=project,
        env=surroundings(project),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"{' '.join(words)} did not start")
        try:
            yield url
        finally:
            child.terminate()


@contextlib.contextmanager
def with_token(project: Path) -> Iterator[tuple[str, str]]:
    """Serve over HTTP as ``kb-mcp`` does; yield the URL and the token that it wants."""
    with open_to_the_suite(project) as url:
        yield url, "none"
