"""Opens the database of a store: an SQLite file, or PostgreSQL, with the tables of this version."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ..errors import LabError, SniaPtsError, StoreError, UsageError, missing_library
from ..lab.device.mounts import mount_of
from ..trusted_paths import require_private

#: The store without a URL: beside the run folders.
DEFAULT = "runs/store.sqlite"
#: File systems on which the locks and the shared memory of SQLite's write-ahead log do not work between hosts.
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2"}
_BUSY_SECONDS = 30
#: What a statement of the operator may do in SQLite.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Tables with their migrations: the folder of these, the table with the revision, and the command that makes them.

    ``error`` is the class of the errors about a database that cannot be used.
    """

    migrations: Path
    version_table: str
    command: str
    error: type[StoreError] | type[LabError]

    @property
    def config(self) -> Config:
        """The configuration for alembic."""
        config = Config()
        config.set_main_option("script_location", str(self.migrations).replace("%", "%%"))
        return config


STORE = Schema(
    migrations=Path(__file__).with_name("migrations"),
    version_table="alembic_version",
    command="snia-pts store add RUN",
    error=StoreError,
)


def open_database(url: str, *, create: bool) -> Engine:
    """Return the engine of a database whose tables are those of this version.

    ``url`` is a path of an SQLite file, or a URL of SQLAlchemy: ``sqlite:///FILE``, ``postgresql://USER@HOST/NAME``.
    ``create``: make a missing SQLite file, and the tables of an empty database; older tables are upgraded.  Raises
    UsageError for an invalid URL, StoreError if the database cannot be used, and LibraryMissing.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        _require_usable(Path(parsed.database or ""), create=create)
    try:
        engine = create_engine(parsed, connect_args=_arguments(parsed))
    except ModuleNotFoundError as error:
        raise missing_library(error) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    try:
        with failures_named(url):
            migrate(engine, shown(url), STORE, create=create)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def failures_named(url: str) -> Iterator[None]:
    """Convert the errors of the database to a StoreError that names it, without its password.

    Values of types that no store has, as in a file that somebody changed, are such errors, too.
    """
    try:
        yield
    except SniaPtsError:
        raise
    except (SQLAlchemyError, CommandError) as error:
        raise StoreError(url=shown(url), reason=cause(error)) from None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise StoreError(url=shown(url), reason=f"it has invalid values ({cause(error)})") from error


def cause(error: Exception) -> str:
    """Return what the database says about a failure, on one line, without a full stop."""
    return " ".join(str(error.orig if isinstance(error, DBAPIError) and error.orig else error).split()).rstrip(".")


@contextmanager
def read_only(engine: Engine) -> Iterator[Connection]:
    """Yield a connection for one SELECT statement of the operator, as a text.

    SQLite opens the file again, only to read, and refuses everything but reading (ATTACH and PRAGMA, too).  PostgreSQL
    gets a cursor in a transaction that can only read; a cursor accepts no other statement, and only one.
    """
    if engine.dialect.name == "sqlite":
        path = quote(os.path.abspath(str(engine.url.database)))  # noqa: PTH100 - as in _parsed
        url = URL.create("sqlite", database=f"file:{path}", query={"mode": "ro", "uri": "true"})
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, poolclass=NullPool)
        event.listen(engine, "connect", _allow_only_reading)
    options = {"no_parameters": True, "stream_results": True, "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as connection:
        yield connection


def _allow_only_reading(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)


def shown(url: str) -> str:
    """Return a URL without its password."""
    return _parsed(url).render_as_string(hide_password=True) if "://" in url else url


def require_recordable(url: str) -> None:
    """Raise UsageError for an invalid URL, or one with a password: the journal of a run has its command line."""
    if "://" in url and (parsed := _parsed(url)).password is not None:
        detail = f"--store {parsed.render_as_string()}: a run records its command line, so no password may be there."
        raise UsageError(detail=detail, hint="Put it into ~/.pgpass, or into the environment variable PGPASSWORD.")


def _parsed(url: str) -> URL:
    """Return a parsed URL; a path is one of SQLite, and always a file: ``:memory:`` would keep nothing."""
    if "://" not in url:
        return URL.create("sqlite", database=os.path.abspath(url))  # noqa: PTH100 - Path.absolute keeps ".."
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "postgresql" and parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if backend not in ("sqlite", "postgresql") or (backend == "sqlite" and not parsed.database):
            raise ArgumentError(backend)
    except (ArgumentError, NoSuchModuleError, ValueError):
        hint = "Give the path of an SQLite file, or postgresql://USER@HOST/NAME."
        raise UsageError(detail="--store: this is not the URL of a store.", hint=hint) from None
    return parsed.set(database=os.path.abspath(str(parsed.database))) if backend == "sqlite" else parsed  # noqa: PTH100


def _arguments(url: URL) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"timeout": _BUSY_SECONDS}
    return {"connect_timeout": _BUSY_SECONDS}


def _require_usable(path: Path, *, create: bool) -> None:
    """Raise an error if an SQLite file is missing, on a network file system, or in a folder that others may change."""
    if not create and not path.exists():
        raise StoreError(url=str(path), reason="no such file", hint="snia-pts store add RUN makes the store.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise StoreError(url=str(path), reason=f"there is no folder {folder}", hint="Make the folder first.")
    require_private(folder)
    mount = mount_of(folder)
    if mount and (mount.kind in _NETWORK or mount.kind.startswith("fuse.")):
        reason = f"it is on a network file system ({mount.kind}), where SQLite can lose data"
        raise StoreError(url=str(path), reason=reason, hint="Put it on a local disk, or use PostgreSQL.")


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # SQLAlchemy begins the transactions, in _begin_sqlite
    for pragma in ("trusted_schema = OFF", "foreign_keys = ON", "journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction, for a writer with the lock that only one of them can have."""
    writes = connection.get_execution_options().get("writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def migrate(engine: Engine, name: str, schema: Schema, *, create: bool, upgrade: bool = True) -> None:
    """Create or upgrade the tables of ``schema`` in the database ``name``, without a lock if they are current.

    ``create`` allows to make all tables, ``upgrade`` to change those of an older version; otherwise, and for tables of
    a newer version, raises the error of ``schema``.
    If two processes do so at once, the second one waits for the first, and finds nothing to do.
    """
    scripts = _scripts(schema)
    options = {"version_table": schema.version_table}
    with engine.connect().execution_options(writes=False) as connection:
        current = MigrationContext.configure(connection, opts=options).get_current_revision()
    if current == scripts.get_current_head():
        return
    if current is None and not create:
        raise schema.error(url=name, reason="it has no tables of snia-pts", hint=f"{schema.command} makes them.")
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        reason = f"a newer version of snia-pts made its tables (revision {current})"
        raise schema.error(url=name, reason=reason, hint="Use that version.")
    if not upgrade:
        reason = f"an older version of snia-pts made its tables (revision {current})"
        raise schema.error(url=name, reason=reason, hint=f"{schema.command} upgrades them.")
    config = schema.config
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@cache
def _scripts(schema: Schema) -> ScriptDirectory:
    """Return the migrations of a schema; alembic compiles their files, which takes 15 ms."""
    return ScriptDirectory.from_config(schema.config)
