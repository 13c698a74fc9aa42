"""Inserts rows whose keys follow from their content, except those that are there already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_new(
    connection: Connection, table: Table, rows: Iterable[dict[str, Any]], *keys: str
) -> int:
    """Insert the rows with a new key; return their number.

    Rows are inserted in key order: two writers with different orders could deadlock, and
    neighbours in a batch share pages of the index.
    """
    distinct = {tuple(row[key] for key in keys): row for row in rows}
    if not distinct:
        return 0
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insert = dialect.insert(table)
    ordered = [distinct[key] for key in sorted(distinct)]
    insert = insert.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    return connection.execute(insert, ordered).rowcount
