"""The file that keeps the index of the search between two starts."""

import json
import subprocess
import sys

import pytest

from kernelkb.actions.knowledge import search as search_actions
from kernelkb.actions.knowledge.search import find_entries
from kernelkb.actions.project import rules_cache

SLOW_IMPORTS = {"networkx", "pydantic", "yaml", "rapidfuzz"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and nothing kept in memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    search_actions._load_index.cache_clear()
    rules_cache._memory_cache.clear()
    yield tmp_path / "kernelkb"
    search_actions._load_index.cache_clear()


def read_index_file(cache):
    (path,) = cache.glob("search-*.sqlite")
    return path


def search_again(query="shared memory bank conflicts"):
    search_actions._load_index.cache_clear()
    return find_entries(query)


def test_the_second_start_reads_the_index_and_no_knowledge(cache):
    first = search_again()
    program = (
        "import json, sys; from kernelkb.actions.knowledge.search import find_entries;"
        "hits = find_entries('shared memory bank conflicts');"
        f"print(json.dumps([hits, sorted({SLOW_IMPORTS} & sys.modules.keys())]))"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    hits, imported = json.loads(child.stdout)

    assert read_index_file(cache).stat().st_size > 0
    assert hits == [list(hit) for hit in first]
    assert imported == []


def test_a_damaged_file_is_written_anew(cache):
    hits = search_again()
    path = read_index_file(cache)
    whole = path.stat().st_size
    path.write_bytes(b"no database")

    assert search_again() == hits
    assert path.stat().st_size == whole


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(4096)])
def test_what_is_no_index_is_not_read(tmp_path, content):
    path = tmp_path / "search.sqlite"
    path.write_bytes(content)

    assert search_actions._read_index(path) is None


def test_a_folder_that_cannot_be_written_only_costs_time(cache):
    cache.write_text("a file where the folder should be")

    assert search_again()[0].id == "shared-memory-bank-conflicts"
