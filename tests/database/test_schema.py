"""Opening a database makes the tables that are missing, and no others."""

from measurements import make_bench
from sqlalchemy import create_engine, inspect, text

from kernelkb.record.measurements.database import REVISION, metadata, resolve_url
from kernelkb.record.measurements.store import open_store


def test_a_new_database_has_every_table_with_its_columns_and_indexes(address, tmp_path):
    open_store(tmp_path, address).close()
    engine = create_engine(resolve_url(tmp_path, address))
    with engine.connect() as connection:
        made = inspect(connection)
        columns = {name: {c["name"] for c in made.get_columns(name)} for name in metadata.tables}
        indexes = {name: {i["name"] for i in made.get_indexes(name)} for name in metadata.tables}
    engine.dispose()

    assert columns == {name: set(table.c.keys()) for name, table in metadata.tables.items()}
    assert indexes == {
        name: {index.name for index in table.indexes} for name, table in metadata.tables.items()
    }


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
        assert inspect(connection).has_table("attempt_event")
        found = connection.scalar(text("SELECT version_num FROM alembic_version"))
    engine.dispose()

    assert found == REVISION
