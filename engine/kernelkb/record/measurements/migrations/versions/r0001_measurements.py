"""Revision 0001: creates the tables of measurements, subjects, series and promotions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables and indexes."""
    op.create_table(
        "series",
        sa.Column("key", sa.BigInteger, primary_key=True, autoincrement=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("kernel", "variant", "target", "workload", "device", "kind")
        ),
    )
    op.create_index("series_by_kernel", "series", ["kernel", "workload", "device"])
    op.create_table(
        "subject",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    _measurements()
    op.create_table(
        "promotion",
        sa.Column("place", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kernel", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )


def _measurements() -> None:
    op.create_table(
        "measurement",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("series", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("timed_us", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("samples", sa.LargeBinary),
    )
    op.create_index("measurement_by_time", "measurement", ["series", "at", "id"])
    timed = sa.text("timed_us IS NOT NULL")
    op.create_index(
        "measurement_by_speed",
        "measurement",
        ["series", "timed_us", "id"],
        sqlite_where=timed,
        postgresql_where=timed,
    )
