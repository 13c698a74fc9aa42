"""Revision 0003: adds attempts, their events, and the source files that they kept."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables and indexes of attempts."""
    op.create_table(
        "attempt",
        sa.Column("id", sa.Text, primary_key=True),
        *_make_texts("kernel", "variant", "target"),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("parent", sa.Text),
        *_make_texts("body"),
    )
    op.create_index("attempt_by_kernel", "attempt", ["kernel", "at", "id"])
    op.create_index("attempt_by_parent", "attempt", ["parent"])
    op.create_table(
        "attempt_event",
        sa.Column("id", sa.Text, primary_key=True),
        *_make_texts("attempt", "kernel", "kind", "origin"),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("place", sa.Text),
        sa.Column("timed_us", sa.Double),
        *_make_texts("body"),
    )
    op.create_index("attempt_event_by_attempt", "attempt_event", ["attempt", "at", "id"])
    op.create_index("attempt_event_by_kind", "attempt_event", ["kind", "kernel", "at", "id"])
    columns = ["kernel", "place", "timed_us", "id"]
    op.create_index("attempt_event_by_time", "attempt_event", columns)
    op.create_index("attempt_event_by_origin", "attempt_event", ["kernel", "origin", "at", "id"])
    op.create_table(
        "source_file",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def _make_texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]
