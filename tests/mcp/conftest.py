"""Fixtures of the MCP tests."""

import tempfile

import pytest


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A word that stands in the command line of this test's own workers, and of no other's."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return str(folder)
