"""Runs the migrations on the connection that ``database`` opened, in its transaction."""

from __future__ import annotations

from alembic import context

from snia_pts.store.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
