"""Run by alembic for each upgrade, on the connection that ``..schema`` hands over.

It begins no transaction: the caller's holds the lock, and an upgrade that is killed leaves nothing.
"""

from alembic import context

from kernelkb.record.measurements.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
