"""The tables that the revisions make are those that the code means."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from measurements import make_bench
from sqlalchemy import create_engine, text

import kernelkb.record.measurements.migrations as migrations
from kernelkb.record.measurements import database as schema
from kernelkb.record.measurements.database import metadata, resolve_url
from kernelkb.record.measurements.store import open_store


def test_the_revisions_make_the_tables_of_the_code(address, tmp_path):
    open_store(tmp_path, address).close()
    engine = create_engine(resolve_url(tmp_path, address))
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()

    assert differences == []


def test_a_database_of_the_first_revision_opens_and_keeps_its_records(address, tmp_path):
    one = make_bench()
    with open_store(tmp_path, address) as store:
        store.add([one])
    engine = create_engine(resolve_url(tmp_path, address))
    with engine.begin() as connection:
        for table in ("attempt", "attempt_event", "source_file"):  # of revision 0003
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    with open_store(tmp_path, address) as store:
        assert store.get(one.id) == one
        assert store.get(one.id).resource_use is None
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "0003"
    engine.dispose()


def test_the_newest_revision_is_the_one_that_the_code_names():
    scripts = ScriptDirectory(migrations.__path__[0])
    known = {one.revision for one in scripts.walk_revisions()}

    assert scripts.get_heads() == [schema.REVISION]
    assert known == {schema.REVISION, *schema._OLDER_REVISIONS}
