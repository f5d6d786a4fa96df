"""The index of the figures by metric has their values, too: a trend or a spread then reads no row of the table."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Replace the index."""
    op.drop_index("ix_figure_metric_id_run_id", table_name="figure")
    columns = ["metric_id", "run_id", "value", "steady"]
    op.create_index(op.f("ix_figure_metric_id_run_id_value_steady"), "figure", columns, unique=False)
