"""The tables of the first store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "metric",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("test", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("better", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric")),
        sa.UniqueConstraint("test", "metric", "at", "unit", name=op.f("uq_metric_test_metric_at_unit")),
    )
    op.create_table(
        "run",
        sa.Column("id", _KEY, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("journal_bytes", sa.BigInteger(), nullable=False),
        sa.Column("journal_crc32", sa.BigInteger(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("test", sa.Text(), nullable=False),
        sa.Column("test_class", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("spec_sha256", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("vendor", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("serial", sa.Text(), nullable=False),
        sa.Column("firmware", sa.Text(), nullable=False),
        sa.Column("capacity_bytes", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("cpu", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("suite_version", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("started", sa.Text(), nullable=False),
        sa.Column("finished", sa.Text(), nullable=False),
        sa.Column("ending", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("steady", sa.Boolean(), nullable=True),
        sa.Column("conformant", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("key", name=op.f("uq_run_key")),
    )
    op.create_index(op.f("ix_run_serial"), "run", ["serial"], unique=False)
    op.create_index(op.f("ix_run_spec_sha256_model_started"), "run", ["spec_sha256", "model", "started"], unique=False)
    op.create_index(op.f("ix_run_test_model_started"), "run", ["test", "model", "started"], unique=False)
    op.create_table(
        "determination",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("variable", sa.Text(), nullable=False),
        sa.Column("average", sa.Float(precision=53), nullable=True),
        sa.Column("data_excursion_percent", sa.Float(precision=53), nullable=True),
        sa.Column("slope_excursion_percent", sa.Float(precision=53), nullable=True),
        sa.Column("steady", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_determination_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_determination")),
    )
    op.create_table(
        "deviation",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("standard", sa.Text(), nullable=False),
        sa.Column("actual", sa.Text(), nullable=False),
        sa.Column("clause", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_deviation_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_deviation")),
    )
    op.create_table(
        "figure",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("metric_id", _KEY, nullable=False),
        sa.Column("value", sa.Float(precision=53), nullable=False),
        sa.Column("steady", sa.Boolean(), nullable=False),
        sa.Column("rounds", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["metric_id"], ["metric.id"], name=op.f("fk_figure_metric_id_metric")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_figure_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric_id", name=op.f("pk_figure")),
    )
    op.create_index(op.f("ix_figure_metric_id_run_id"), "figure", ["metric_id", "run_id"], unique=False)
    op.create_table(
        "label",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_label_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_label")),
    )
    op.create_index(op.f("ix_label_name_value"), "label", ["name", "value"], unique=False)
    op.create_table(
        "limit_judgement",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("minimum", sa.Float(precision=53), nullable=True),
        sa.Column("maximum", sa.Float(precision=53), nullable=True),
        sa.Column("tolerance_percent", sa.Float(precision=53), nullable=False),
        sa.Column("value", sa.Float(precision=53), nullable=True),
        sa.Column("met", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_limit_judgement_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_limit_judgement")),
    )
    op.create_table(
        "regression_check",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("metric_id", _KEY, nullable=False),
        sa.Column("finding", sa.Text(), nullable=False),
        sa.Column("like_runs", sa.Integer(), nullable=False),
        sa.Column("median", sa.Float(precision=53), nullable=True),
        sa.Column("tolerance", sa.Float(precision=53), nullable=True),
        sa.ForeignKeyConstraint(["metric_id"], ["metric.id"], name=op.f("fk_regression_check_metric_id_metric")),
        sa.ForeignKeyConstraint(
            ["run_id"], ["run.id"], name=op.f("fk_regression_check_run_id_run"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "metric_id", name=op.f("pk_regression_check")),
    )
    op.create_table(
        "warning",
        sa.Column("run_id", _KEY, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_warning_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_warning")),
    )
