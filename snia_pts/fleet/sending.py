"""Sends the folders of the runs of a host that have ended, until the controller has acknowledged each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import psycopg

from ..errors import RecordError
from .host_service import RemoteRuns
from .run_state import HostRuns, Running
from .transfer import Manifest, is_sent, manifest_of, send


class ResultSender:
    """Sends the results of a host.  The folders stay on the host; ``say`` is called once with each failure of a run.

    The database says which results the controller does not have, so that nothing is lost if the agent starts again.
    """

    def __init__(self, parameters: Mapping[str, Any], runs: HostRuns | RemoteRuns, say: Callable[[str], None]) -> None:
        self._parameters, self._runs, self._say = parameters, runs, say
        self._sent: dict[UUID, Manifest] = {}
        self._failures: dict[UUID, str] = {}

    def send_all(self, is_stopping: Callable[[], bool]) -> None:
        """Send what the controller does not have; raises psycopg.Error."""
        with psycopg.connect(**self._parameters, autocommit=True) as connection:
            runs = [run_id for (run_id,) in connection.execute("SELECT lab_unreceived()")]
            self._sent = {run_id: manifest for run_id, manifest in self._sent.items() if run_id in runs}
            for run_id in runs:
                if is_stopping():
                    return
                try:
                    self._send(connection, run_id, is_stopping)
                except RecordError as error:
                    self._report(run_id, f"{error} {error.full_hint}".strip())
                except OSError as error:
                    self._report(run_id, str(error))
                except psycopg.errors.DiskFull as error:
                    self._report(run_id, f"{error.diag.message_primary}. snia-pts lab collect receives them.")

    def _report(self, run_id: UUID, failure: str) -> None:
        if self._failures.get(run_id) != failure:
            self._failures[run_id] = failure
            self._say(f"run {run_id}: its results are not sent: {failure}")

    def _send(self, connection: psycopg.Connection, run_id: UUID, is_stopping: Callable[[], bool]) -> None:
        sent = self._sent.get(run_id)
        if sent is not None and is_sent(connection, run_id, sent):
            return  # the controller has not received it yet
        outcome = self._runs.state(run_id)
        if outcome is None or isinstance(outcome, Running):
            return
        manifest = manifest_of(outcome.folder)
        if isinstance(self._runs.state(run_id), Running):
            return  # it was resumed meanwhile
        send(connection, run_id, outcome.folder, manifest, is_stopping=is_stopping)
        self._sent[run_id] = manifest
