"""The product as its users start it, and as the suite needs it."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SERVER_COMMAND = [sys.executable, "-c", "from kernelkb_mcp.start import main; main()"]


def build_server_environment(project: Path) -> dict[str, str]:
    """Return the environment of a server that must be this checkout's."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PWD": str(project)}


@contextlib.contextmanager
def serve_with_added_token(project: Path, *options: str) -> Iterator[str]:
    """Serve over HTTP with the token added on the way; yield the URL."""
    words = [sys.executable, str(HERE / "serve.py"), *options]
    with start_http_server(words, project, build_server_environment(project)) as url:
        yield url


@contextlib.contextmanager
def serve_with_token(project: Path) -> Iterator[tuple[str, str]]:
    """Serve over HTTP as ``kb-mcp`` does; yield the URL and the token that it wants."""
    token = secrets.token_urlsafe(24)
    words = [*SERVER_COMMAND, "--http", "--port", "0"]
    with start_http_server(
        words, project, build_server_environment(project) | {"KERNELKB_TOKEN": token}
    ) as url:
        yield url, token


@contextlib.contextmanager
def start_http_server(
    words: list[str], project: Path, environment: dict[str, str]
) -> Iterator[str]:
    """Start a server that names its URL at the end of its first line; what follows is its own."""
    with subprocess.Popen(
        words,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        assert child.stdout is not None
        try:
            said = child.stdout.readline().split()
            if not said or not said[-1].startswith("http://"):
                raise RuntimeError(f"no server: {' '.join(said)} {child.stdout.read()[-500:]}")
            yield said[-1]
        finally:
            child.terminate()
