"""Who stopped a run."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

_STATEMENTS = """
ALTER TABLE lab_run ADD COLUMN stopped_by text NOT NULL DEFAULT '';
GRANT UPDATE (stopped_by) ON lab_run TO lab_controller;
"""


def upgrade() -> None:
    """Add the column, and the right of people to set it."""
    op.get_bind().exec_driver_sql(_STATEMENTS, execution_options={"no_parameters": True})
