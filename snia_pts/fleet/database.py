"""Opens the database of a lab for people and the controller; agents have connections of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from alembic.util import CommandError
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from ..errors import LabError, SniaPtsError
from ..store.database import Schema, cause, migrate
from .connection import connection_parameters, name_of
from .schema import VERSION_TABLE

_SCHEMA = Schema(
    migrations=Path(__file__).with_name("migrations"),
    version_table=VERSION_TABLE,
    command="snia-pts lab init",
    error=LabError,
)


@contextmanager
def failures_named(name: str) -> Iterator[None]:
    """Convert the errors of the database to a LabError that names it."""
    try:
        yield
    except SniaPtsError:
        raise
    except (SQLAlchemyError, CommandError, psycopg.Error) as error:
        raise LabError(url=name, reason=cause(error)) from None


def open_lab(url: str, *, create: bool = False) -> Engine:
    """Return the engine of the database of a lab, whose tables are those of this version.

    ``create``: make or upgrade the tables, as its owner.  Raises UsageError and LabError.
    """
    parameters = connection_parameters(url)
    name = name_of(parameters)
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(**parameters), poolclass=NullPool)
    with failures_named(name):
        migrate(engine, name, _SCHEMA, create=create, upgrade=create)
    return engine
