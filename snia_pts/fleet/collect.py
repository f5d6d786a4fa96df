"""Receives the run folders that agents have sent, adds them to a store of results, and acknowledges them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg.rows import class_row, dict_row

from ..api.run import run_paths
from ..errors import RecordError, RunFolderError, UploadRefused
from ..files import open_to_append
from ..record.locks import lock
from ..store.ingestion import in_order
from ..store.store import Store
from ..trusted_paths import private_path, require_private
from .connection import connection_parameters, name_of
from .database import failures_named
from .operations import SILENT_SECONDS
from .request import parse_request
from .transfer import Upload, parse_manifest, receive

#: What became of results: in the store; a folder that the store does not take; no folder; a manifest that no agent
#: sends.
Outcome = Literal["stored", "kept", "empty", "refused"]
_LOCK = ".collect"
_NEWEST = "SELECT max(id) AS id FROM lab_upload GROUP BY run_id ORDER BY 1"
_UPLOAD = """
    SELECT upload.id, upload.run_id, upload.digest, upload.manifest, upload.sent,
        request.host, request.serial, request.test, request.campaign, request.request
    FROM lab_upload AS upload JOIN lab_request AS request USING (run_id) WHERE upload.id = %s
"""
#: The same runs as those of ``lab_unreceived``, of all hosts.
_AWAITED = """
    SELECT run.run_id, request.host,
        coalesce((SELECT sum(length(content)) FROM lab_chunk AS chunk WHERE chunk.run_id = run.run_id), 0)::bigint
            AS sent_bytes,
        host.last_seen IS NULL OR host.last_seen < now() - make_interval(secs => %(silent_seconds)s) AS silent
    FROM lab_run AS run JOIN lab_request AS request USING (run_id) JOIN lab_host AS host ON host.name = request.host
    WHERE run.state IN ('finished', 'stopped', 'failed', 'lost') AND NOT EXISTS
        (SELECT FROM lab_receipt AS receipt WHERE receipt.run_id = run.run_id AND receipt.sent >= run.ended)
    ORDER BY run.ended
"""
_RECEIPT = """
    INSERT INTO lab_receipt (run_id, digest, sent, outcome, message)
    VALUES (%(run_id)s, %(digest)s, %(sent)s, %(outcome)s, %(message)s)
    ON CONFLICT (run_id, digest) DO UPDATE SET
        sent = excluded.sent, received = now(), outcome = excluded.outcome, message = excluded.message
"""
_EVENT = """
    INSERT INTO lab_event (host, run_id, serial, kind, message)
    VALUES (%(host)s, %(run_id)s, %(serial)s, 'results ' || %(outcome)s, %(message)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The results of a run that were received, or refused; ``message`` is why they are not in the store."""

    run_id: UUID
    host: str
    serial: str
    test: str
    folder: Path
    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A run that has ended, and whose results its host still has to send; ``sent_bytes`` of them are in the database.

    ``silent``: the agent of the host has not called for a while.
    """

    run_id: UUID
    host: str
    sent_bytes: int
    silent: bool


def collect(url: str, runs: Path, store_url: str) -> Iterator[Collected]:
    """Receive all complete results into folders in ``runs``, named by their runs; yield each when it is acknowledged.

    It can be killed at any time: what was not acknowledged is received again.  Raises LabError, StoreError, UsageError,
    RunFolderError if another process collects into the same folder, and RecordError if the disk is full.
    """
    parameters = connection_parameters(url)
    with (
        failures_named(name_of(parameters)),
        _only_one(runs) as folder,
        Store(store_url, create=True) as store,
        psycopg.connect(**parameters, autocommit=True, row_factory=dict_row) as connection,
    ):
        for upload_id in [row["id"] for row in connection.execute(_NEWEST).fetchall()]:
            row = connection.execute(_UPLOAD, (upload_id,)).fetchone()
            if row is not None and (collected := _collect(connection, row, folder, store)):
                yield collected


def awaited(url: str) -> list[Awaited]:
    """Return the runs that have ended, and whose results are not received as they then were.  Raises LabError."""
    parameters = connection_parameters(url)
    with (
        failures_named(name_of(parameters)),
        psycopg.connect(**parameters, row_factory=class_row(Awaited)) as connection,
    ):
        return connection.execute(_AWAITED, {"silent_seconds": SILENT_SECONDS}).fetchall()


@contextmanager
def _only_one(runs: Path) -> Iterator[Path]:
    """Make the folder, keep other processes from collecting into it, and yield its real path."""
    try:
        require_private(runs)
        folder = private_path(runs, make=True)
        file = open_to_append(folder / _LOCK, new=True)
    except OSError as error:
        raise RunFolderError(path=runs, reason=error.strerror or str(error)) from None
    with file:
        try:
            lock(file.fileno())
        except BlockingIOError:
            reason = "another process receives results into it"
            raise RunFolderError(path=runs, reason=reason, hint="Wait until it ends.") from None
        yield folder


def _collect(
    connection: psycopg.Connection[dict[str, Any]], row: Mapping[str, Any], runs: Path, store: Store
) -> Collected | None:
    """Receive, store and acknowledge an upload; None if some of its chunks are not there yet."""
    upload = Upload(run_id=row["run_id"], digest=row["digest"], manifest=bytes(row["manifest"]))
    folder = runs / str(upload.run_id)
    outcome: Outcome
    try:
        if not receive(connection, upload, folder):
            return None
        outcome, message = _store(store, folder, row) if parse_manifest(upload).files else ("empty", "")
    except UploadRefused as error:
        outcome, message = "refused", str(error)
    _acknowledge(connection, {**row, "outcome": outcome, "message": message})
    return Collected(
        run_id=upload.run_id,
        host=row["host"],
        serial=row["serial"],
        test=row["test"],
        folder=folder,
        outcome=outcome,
        message=message,
    )


def _store(store: Store, folder: Path, row: Mapping[str, Any]) -> tuple[Outcome, str]:
    """Add the runs in a folder to the store, with the labels of their request; return why one was not added."""
    labels = {**parse_request(json.dumps(row["request"])).labels, "lab_run": str(row["run_id"])}
    if row["campaign"]:
        labels["campaign"] = row["campaign"]
    refused = []
    try:
        paths = in_order(run_paths(folder))
    except RecordError as error:
        return "kept", str(error)
    for path in paths:
        try:
            store.add(path, labels)
        except RecordError as error:
            refused.append(str(error))
    return ("kept", refused[0]) if refused else ("stored", "")


def _acknowledge(connection: psycopg.Connection[dict[str, Any]], values: Mapping[str, Any]) -> None:
    """Write the receipt, and remove the upload, older ones and their chunks, in one transaction.

    If the agent has sent a newer upload meanwhile, the chunks stay for it.
    """
    with connection.transaction():
        connection.execute(_RECEIPT, values)
        connection.execute(_EVENT, values)
        connection.execute("DELETE FROM lab_upload WHERE run_id = %(run_id)s AND id <= %(id)s", values)
        connection.execute(
            """
            DELETE FROM lab_chunk WHERE run_id = %(run_id)s
            AND NOT EXISTS (SELECT FROM lab_upload WHERE run_id = %(run_id)s)
            """,
            values,
        )
