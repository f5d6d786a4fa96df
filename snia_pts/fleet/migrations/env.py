"""Runs the migrations on the connection that ``store.database`` opened, in its transaction."""

from __future__ import annotations

from alembic import context

from snia_pts.fleet.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
context.run_migrations()
