"""The tables of a store.  Figures are those of ``assess``; units are part of the names, or stand beside the value."""

from __future__ import annotations

import re
from reprlib import repr as shortened
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
)

#: The names of all constraints, so that migrations can name them on both databases.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMES)
#: SQLite numbers only rows of the type INTEGER by itself; its integers have 64 bits.
_Key = BigInteger().with_variant(Integer, "sqlite")
#: Times in UTC as a store has them, which are sorted as texts.
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}\+00:00")


# SQLite checks no types: of a column of these types, it gives only valid values; for others, it raises TypeError.


class Number(Float[float]):
    """A double."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ARG002
        """Return the function that checks a value."""
        return _number if dialect.name == "sqlite" else None


class Truth(Boolean):
    """A truth value: 0 or 1 in SQLite."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ARG002
        """Return the function that converts a value."""
        return _truth if dialect.name == "sqlite" else None


class Time(Text):
    """A time in ISO 8601 in UTC; an unknown one is empty."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ARG002
        """Return the function that checks a value."""
        return _time if dialect.name == "sqlite" else None


def _number(value: object) -> object:
    if value is not None and not isinstance(value, float | int):
        raise TypeError(f"expected a number, got {shortened(value)}")
    return value


def _truth(value: object) -> bool | None:
    if value not in (None, 0, 1):
        raise TypeError(f"expected 0 or 1, got {shortened(value)}")
    return None if value is None else bool(value)


def _time(value: object) -> object:
    if value and not (isinstance(value, str) and _TIME.fullmatch(value)):
        raise TypeError(f"expected a time, got {shortened(value)}")
    return value


def _of_run(name: str, *columns: Column[object]) -> Table:
    """Return a table with several rows of a run, in order of ``number``."""
    return Table(
        name,
        METADATA,
        Column("run_id", _Key, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        *columns,
    )


#: A run.  ``key`` is the SHA-256 of the first line of its journal; ``journal_bytes`` and ``journal_crc32`` show whether
#: it was resumed since.  It was added from ``folder``; ``archive`` is the file with its packed folder, if there is one.
#: Times are ISO 8601 in UTC.  Unknown texts are empty, unknown numbers NULL; ``steady`` is NULL if the test requires no
#: steady state.
RUN = Table(
    "run",
    METADATA,
    Column("id", _Key, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("journal_bytes", BigInteger, nullable=False),
    Column("journal_crc32", BigInteger, nullable=False),
    Column("folder", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("test", Text, nullable=False),
    Column("test_class", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("spec_sha256", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("vendor", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("serial", Text, nullable=False),
    Column("firmware", Text, nullable=False),
    Column("capacity_bytes", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("cpu", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("suite_version", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("started", Time, nullable=False),
    Column("finished", Time, nullable=False),
    Column("ending", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("steady", Truth),
    Column("conformant", Truth, nullable=False),
    Column("seed", BigInteger),
    Column("archive", Text, nullable=False, server_default=""),
    Column("archive_sha256", Text, nullable=False, server_default=""),
    Index(None, "test", "model", "started"),
    Index(None, "serial"),
    Index(None, "spec_sha256", "model", "started"),
)
#: The name of a number: ``iops`` at ``RND 4 KiB 0/100``.  ``better`` is ``more``, ``less`` or NULL.
METRIC = Table(
    "metric",
    METADATA,
    Column("id", _Key, primary_key=True),
    Column("test", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("better", Text),
    UniqueConstraint("test", "metric", "at", "unit"),
)
#: A key figure of a run; ``rounds`` are the values of the rounds of its window, as doubles in little-endian order.
#: ``steady`` is false if the figure requires steady state, which the run did not reach.
FIGURE = Table(
    "figure",
    METADATA,
    Column("run_id", _Key, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("metric_id", _Key, ForeignKey("metric.id"), primary_key=True),
    Column("value", Number(53), nullable=False),
    Column("steady", Truth, nullable=False),
    Column("rounds", LargeBinary, nullable=False),
    Index(None, "metric_id", "run_id", "value", "steady"),  # everything that a trend or spread needs of a figure
)
#: The figures that count, and in SQLite those with an invalid value: a query reads the value, too, so that it is
#: refused.
IS_STEADY = FIGURE.c.steady.is_not(false())
#: The determination of a tracked variable in the last window of a series; NULL if it cannot be evaluated.
DETERMINATION = _of_run(
    "determination",
    Column("series", Text, nullable=False),
    Column("variable", Text, nullable=False),
    Column("average", Number(53)),
    Column("data_excursion_percent", Number(53)),
    Column("slope_excursion_percent", Number(53)),
    Column("steady", Truth, nullable=False),
)
DEVIATION = _of_run(
    "deviation",
    Column("what", Text, nullable=False),
    Column("standard", Text, nullable=False),
    Column("actual", Text, nullable=False),
    Column("clause", Text, nullable=False),
)
WARNING = _of_run("warning", Column("what", Text, nullable=False), Column("detail", Text, nullable=False))
#: The judgement of a limit; ``value`` is NULL if it was not measured.
LIMIT = _of_run(
    "limit_judgement",
    Column("metric", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("minimum", Number(53)),
    Column("maximum", Number(53)),
    Column("tolerance_percent", Number(53), nullable=False),
    Column("value", Number(53)),
    Column("met", Truth, nullable=False),
    Column("reason", Text, nullable=False),
)
#: The judgement of a key figure by the rule of ``regression_rule``, made when the run was stored and kept since.
#: ``tolerance`` is on both sides of ``median``, the median of ``like_runs`` runs; both are NULL without a basis.
REGRESSION_CHECK = Table(
    "regression_check",
    METADATA,
    Column("run_id", _Key, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("metric_id", _Key, ForeignKey("metric.id"), primary_key=True),
    Column("finding", Text, nullable=False),
    Column("like_runs", Integer, nullable=False),
    Column("median", Number(53)),
    Column("tolerance", Number(53)),
)
#: What the operator says of a run, such as ``project``: no run folder has it, so a rebuild keeps it.
LABEL = Table(
    "label",
    METADATA,
    Column("run_id", _Key, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Index(None, "name", "value"),
)
