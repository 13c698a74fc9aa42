"""How the tables came to be, revision by revision; alembic runs these files by their path."""
