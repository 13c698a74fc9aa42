"""Alembic migrations of the measurement database; alembic runs these files by their path."""
