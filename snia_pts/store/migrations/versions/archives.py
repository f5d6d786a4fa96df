"""The archive of a run, and its digest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; no run has an archive yet."""
    for name in ("archive", "archive_sha256"):
        op.add_column("run", sa.Column(name, sa.Text(), nullable=False, server_default=""))
