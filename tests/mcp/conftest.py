"""Fixtures of the MCP tests."""

import contextlib
import os
import tempfile

import pytest
from broken_kernels import make_broken_kernel


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A word that stands in the command line of this test's own workers, and of no other's."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return str(folder)


@pytest.fixture
def stalled_source(project):
    """The source of a kernel whose compiler waits for a pipe that nobody writes to."""
    folder = make_broken_kernel(project, "right")
    pipe = folder / "wait.txt"
    os.mkfifo(pipe)
    source = folder / "naive.cpp"
    source.write_text(f'#include "wait.txt"\n{source.read_text()}')
    yield str(source)
    with contextlib.suppress(OSError):  # a compiler that was left behind ends now
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
