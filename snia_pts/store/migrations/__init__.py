"""The migrations of the tables of a store, for alembic."""
