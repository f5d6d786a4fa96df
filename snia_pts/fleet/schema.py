"""The tables of a lab: hosts, drives, requests, runs and events, beside the queue of Procrastinate.

The rights are in the first migration.  Who may do what is described in docs/fleet.rst.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from ..store.schema import NAMES

#: The table with the revision of these tables; that of a store in the same database has another name.
VERSION_TABLE = "lab_version"
METADATA = MetaData(naming_convention=NAMES)
_EMPTY = text("''::text")
_NOW = text("now()")


def _time(name: str, *, default: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=not default, server_default=_NOW if default else None)


#: A host with an agent, which last called at ``last_seen``.  A host in maintenance starts nothing new.  ``chunk_bytes``
#: are those of its results that were not collected.
HOST = Table(
    "lab_host",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("maintenance", Boolean, nullable=False, server_default=text("false")),
    Column("version", Text, nullable=False, server_default=_EMPTY),
    _time("added", default=True),
    _time("last_seen"),
    Column("side_by_side", Integer, nullable=False, server_default=text("1")),
    Column("side_by_side_reason", Text, nullable=False, server_default=_EMPTY),
    Column("chunk_bytes", BigInteger, nullable=False, server_default=text("0")),
)
#: A drive that an agent has reported; ``facts`` is a ``DriveFacts``.  ``claimed_by_host`` is the only host that may
#: test it; NULL if no host has it now.  ``held`` is the reason why nothing new starts on it, empty if it is not held.
DRIVE = Table(
    "lab_drive",
    METADATA,
    Column("serial", Text, primary_key=True),
    Column("model", Text, nullable=False, server_default=_EMPTY),
    Column("claimed_by_host", Text, ForeignKey("lab_host.name")),
    Column("held", Text, nullable=False, server_default=_EMPTY),
    Column("health", Text, nullable=False, server_default=text("'unknown'::text")),
    Column("facts", JSONB),
    Index(None, "claimed_by_host"),
)
#: What a person asked for; never changed.  ``request`` is a ``RunRequest``.  A ``health_check`` that does not pass
#: holds its drive.
REQUEST = Table(
    "lab_request",
    METADATA,
    Column("run_id", UUID(as_uuid=True), primary_key=True),
    Column("host", Text, ForeignKey("lab_host.name"), nullable=False),
    Column("serial", Text, ForeignKey("lab_drive.serial"), nullable=False),
    Column("test", Text, nullable=False),
    Column("request", JSONB, nullable=False),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("campaign", Text, nullable=False, server_default=_EMPTY),
    Column("submitter", Text, nullable=False, server_default=text("SESSION_USER")),
    _time("submitted", default=True),
    Column("health_check", Boolean, nullable=False, server_default=text("false")),
    Index(None, "host"),
    Index(None, "serial"),
)
#: Where a run stands, as its agent last reported.  ``exit_code`` is that of ``snia-pts``.  ``stop`` and ``resume`` are
#: what a person wants of the agent: '' (nothing), 'point' (stop after the current point) or 'now'; '' , 'rule' or
#: 'from-purge'.  ``stopped_by`` is the person who asked for the last stop.  ``live`` are its ``LiveValues``
#: while it is in progress, and ``series`` its values over time.
RUN = Table(
    "lab_run",
    METADATA,
    Column("run_id", UUID(as_uuid=True), ForeignKey("lab_request.run_id"), primary_key=True),
    Column("state", Text, nullable=False, server_default=text("'queued'::text")),
    Column("exit_code", Integer),
    Column("verdict", Text, nullable=False, server_default=_EMPTY),
    Column("message", Text, nullable=False, server_default=_EMPTY),
    Column("folder", Text, nullable=False, server_default=_EMPTY),
    Column("stop", Text, nullable=False, server_default=_EMPTY),
    Column("resume", Text, nullable=False, server_default=_EMPTY),
    _time("started"),
    _time("ended"),
    Column("live", JSONB),
    Column("series", JSONB),
    Column("stopped_by", Text, nullable=False, server_default=_EMPTY),
)
#: What happened, in order; rows are only added.
EVENT = Table(
    "lab_event",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _time("at", default=True),
    Column("host", Text, nullable=False, server_default=_EMPTY),
    Column("run_id", UUID(as_uuid=True)),
    Column("serial", Text, nullable=False, server_default=_EMPTY),
    Column("kind", Text, nullable=False),
    Column("message", Text, nullable=False, server_default=_EMPTY),
    Index(None, "run_id"),
    Index(None, "at"),
)
#: A message about an event was sent to a ``notifications.Channel``.
NOTIFICATION = Table(
    "lab_notification",
    METADATA,
    Column("event_id", BigInteger, ForeignKey("lab_event.id"), primary_key=True),
    Column("channel", Text, primary_key=True),
    _time("sent", default=True),
)
#: A piece of what the processes of a run printed; it begins at ``start_byte``.
OUTPUT = Table(
    "lab_output",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run_id", UUID(as_uuid=True), ForeignKey("lab_request.run_id"), nullable=False),
    _time("at", default=True),
    Column("start_byte", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("run_id", "start_byte"),
)
#: A piece of the results of a run, as its agent sent it; ``digest`` is the SHA-256 of ``content``.
CHUNK = Table(
    "lab_chunk",
    METADATA,
    Column("run_id", UUID(as_uuid=True), ForeignKey("lab_request.run_id"), primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
#: The files of a run folder, a ``Manifest``; a run whose folder has grown has several.
UPLOAD = Table(
    "lab_upload",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("run_id", UUID(as_uuid=True), ForeignKey("lab_request.run_id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("manifest", LargeBinary, nullable=False),
    _time("sent", default=True),
    UniqueConstraint("run_id", "digest"),
)
#: The controller has received an upload; ``outcome`` is one of ``collect.Outcome``.
RECEIPT = Table(
    "lab_receipt",
    METADATA,
    Column("run_id", UUID(as_uuid=True), ForeignKey("lab_request.run_id"), primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("sent", DateTime(timezone=True), nullable=False),
    _time("received", default=True),
    Column("outcome", Text, nullable=False),
    Column("message", Text, nullable=False, server_default=_EMPTY),
)
