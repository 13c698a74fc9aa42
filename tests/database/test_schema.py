"""The tables that the revisions make are those that the code means."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

import kernelkb.record.measurements.migrations as migrations
from kernelkb.record.measurements import schema
from kernelkb.record.measurements.connections import resolve_url
from kernelkb.record.measurements.store import open_store
from kernelkb.record.measurements.tables import metadata


def test_the_revisions_make_the_tables_of_the_code(address, tmp_path):
    open_store(tmp_path, address).close()
    engine = create_engine(resolve_url(tmp_path, address))
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()

    assert differences == []


def test_the_newest_revision_is_the_one_that_the_code_names():
    scripts = ScriptDirectory(migrations.__path__[0])
    known = {one.revision for one in scripts.walk_revisions()}

    assert scripts.get_heads() == [schema.REVISION]
    assert known == {schema.REVISION, *schema._OLDER_REVISIONS}
