"""The environment that alembic runs for each upgrade, on the connection from ``..schema``.

It begins no transaction: the caller's transaction holds the lock, so a killed upgrade changes
nothing.
"""

from alembic import context

from kernelkb.record.measurements.database import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
