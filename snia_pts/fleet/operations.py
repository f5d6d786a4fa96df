"""What people do with a lab: submit and stop runs, hold drives, and look at all of it."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from typing import cast as cast_type
from uuid import UUID

import psycopg
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, Select, Text, case, cast, func, select, text, true, update

from ..analysis.side_by_side import SideBySide
from ..errors import NotResumable, NotRunning, UsageError
from ..runner.live import TimeSeries
from ..text import one_line, suggestion
from .campaign import LabDrive
from .connection import connection_parameters, name_of
from .database import failures_named, open_lab
from .drive_facts import parse_facts
from .live_values import parse_series
from .queue import FIRST, MAX_PRIORITY, cancel_job, defer_run
from .request import RunRequest, parse_request, request_json
from .schema import DRIVE, EVENT, HOST, OUTPUT, RECEIPT, REQUEST, RUN

#: The states of a run that has not ended, and of one that can be resumed.
UNFINISHED = ("queued", "running")
RESUMABLE = ("stopped", "failed", "lost", "refused")
#: The seconds after which a host that did not call is not reachable; an agent calls every 5 seconds.
SILENT_SECONDS = 30
_LAST_PIECES = 40
_AGENT_PREFIX = "agent_"
#: As the first migration checks it.
_HOST_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An event of a run and its message, or lines that the run printed (``event`` is empty then)."""

    at: datetime
    event: str
    text: str


class Lab:
    """The database of a lab, as a person or the controller uses it."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        """Open the database.  ``create``: make or upgrade its tables.  Raises UsageError and LabError."""
        self.name = name_of(connection_parameters(url))
        self._engine = open_lab(url, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction; raises LabError."""
        with failures_named(self.name), self._engine.begin() as connection:
            yield connection

    def add_host(self, name: str, *, password: bool = False) -> str:
        """Add a host and the role of its agent; return the password of the role, or an empty text.

        A role without a password can log in with a certificate, or as the server's configuration says.
        """
        if not _HOST_NAME.fullmatch(name):
            hint = "A name has letters from a to z, digits, - and _, and at most 48 of them: rack1-slot2."
            raise UsageError(detail=f"{name!r} is not the name of a host.", hint=hint)
        role, secret = f"{_AGENT_PREFIX}{name}", secrets.token_urlsafe(32) if password else ""
        with self.transaction() as connection:
            connection.execute(HOST.insert().values(name=name))
            raw = _psycopg(connection)
            quoted = sql.Identifier(role)
            raw.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE lab_agent").format(quoted))
            if secret:
                digest = raw.pgconn.encrypt_password(secret.encode(), role.encode(), b"scram-sha-256").decode()
                alter = sql.SQL("ALTER ROLE {} PASSWORD {}").format(quoted, sql.Literal(digest))
                raw.execute(alter)
        return secret

    def submit(
        self,
        requests: Sequence[RunRequest],
        *,
        priority: int = 0,
        campaign: str = "",
        health_checks: Container[UUID] = (),
    ) -> list[str]:
        """Add runs to the queues, all or none; return the host of each.

        If one of the ``health_checks`` among them does not pass, its drive is held.  Raises UsageError.
        """
        if abs(priority) > MAX_PRIORITY:
            detail = f"--priority {priority}: expected -{MAX_PRIORITY} to {MAX_PRIORITY}."
            raise UsageError(detail=detail, hint="A run with a higher priority starts first; the default is 0.")
        with self.transaction() as connection:
            return [
                self._submit(
                    connection,
                    request,
                    {"priority": priority, "campaign": campaign, "health_check": request.run_id in health_checks},
                )
                for request in requests
            ]

    def _submit(self, connection: Connection, request: RunRequest, values: Mapping[str, Any]) -> str:
        """Add a run, with ``values`` for further columns of its request."""
        drive = connection.execute(select(DRIVE).where(DRIVE.c.serial == request.serial)).mappings().first()
        if drive is None:
            known = connection.execute(select(DRIVE.c.serial)).scalars().all()
            hint = suggestion(request.serial, known) or "snia-pts lab drives lists the drives."
            raise UsageError(detail=f"No agent has a drive with serial number {request.serial}.", hint=hint)
        if drive["claimed_by_host"] is None or drive["health"] == "retired":
            why = "is retired" if drive["health"] == "retired" else "is no longer in any host"
            hint = "snia-pts lab drives lists the drives; snia-pts lab release ends a retirement."
            raise UsageError(detail=f"The drive {request.serial} {why}.", hint=hint)
        host = str(drive["claimed_by_host"])
        connection.execute(
            REQUEST.insert().values(
                run_id=request.run_id,
                host=host,
                serial=request.serial,
                test=request.test,
                request=json.loads(request_json(request)),
                **values,
            )
        )
        connection.execute(RUN.insert().values(run_id=request.run_id))
        self._defer(connection, request.run_id, host, request.serial, values["priority"])
        self._note(connection, "submitted", run_id=request.run_id, host=host, serial=request.serial)
        return host

    @staticmethod
    def _defer(connection: Connection, run_id: UUID, host: str, serial: str, priority: int) -> None:
        defer_run(_psycopg(connection), run_id=run_id, host=host, serial=serial, priority=priority)

    @staticmethod
    def _note(connection: Connection, kind: str, message: str = "", **of: object) -> None:
        connection.execute(EVENT.insert().values(kind=kind, message=message, **of))

    def campaign_drives(self) -> tuple[list[LabDrive], dict[str, SideBySide]]:
        """Return all drives for a campaign, and how many runs each host tests side by side."""
        query = select(REQUEST.c.serial, REQUEST.c.request).join_from(REQUEST, RUN)
        unfinished = self._rows(query.where(RUN.c.state.in_(UNFINISHED)))
        queued = defaultdict[str, list[RunRequest]](list)
        for row in unfinished:
            queued[row["serial"]].append(parse_request(json.dumps(row["request"])))
        drives = [
            LabDrive(
                serial=row["serial"],
                model=row["model"],
                host=row["claimed_by_host"] or "",
                facts=parse_facts(row["facts"]),
                obstacle=_campaign_obstacle(row),
                queued=tuple(queued[row["serial"]]),
            )
            for row in self._rows(select(DRIVE).order_by(DRIVE.c.serial))
        ]
        hosts = self._rows(select(HOST))
        return drives, {row["name"]: SideBySide(row["side_by_side"], row["side_by_side_reason"]) for row in hosts}

    def runs(self, *, unfinished: bool = False) -> list[dict[str, Any]]:
        """Return all runs in order of submission, or the ``unfinished`` ones without their ``live`` values."""
        run = RUN.c
        which: ColumnElement[bool] = run.state.in_(UNFINISHED) if unfinished else true()
        columns: list[ColumnElement[Any]] = [
            *(REQUEST.c[name] for name in ("run_id", "host", "serial", "test", "priority", "campaign", "submitter")),
            func.coalesce(REQUEST.c.request["options"]["pts"].astext, "").label("pts"),
            DRIVE.c.model,
            *(run[name] for name in ("state", "exit_code", "verdict", "message", "folder")),
            *(run[name] for name in ("stop", "stopped_by", "resume")),
            REQUEST.c.submitted,
            run.started,
            run.ended,
        ]
        if not unfinished:
            columns.append(case((run.state == "running", run.live)).label("live"))
        query = select(*columns).join_from(REQUEST, RUN).join(DRIVE, DRIVE.c.serial == REQUEST.c.serial)
        return self._rows(query.where(which).order_by(REQUEST.c.submitted, REQUEST.c.run_id))

    def queue(self) -> list[dict[str, Any]]:
        """Return the unfinished runs in the order in which each drive tests them, with what they wait for."""
        obstacles = {drive["serial"]: drive["waits_for"] for drive in self.drives()}
        runs = sorted(
            self.runs(unfinished=True),
            key=lambda run: (run["host"], run["serial"], run["state"] != "running", -run["priority"], run["submitted"]),
        )
        in_progress = Counter(run["host"] for run in runs if run["state"] == "running")
        limits = {row["name"]: row["side_by_side"] for row in self._rows(select(HOST.c.name, HOST.c.side_by_side))}
        first: set[str] = set()
        for run in runs:
            is_full = in_progress[run["host"]] >= limits[run["host"]]
            others = f"the end of a test on {run['host']} (side_by_side: {limits[run['host']]})" if is_full else ""
            waits = obstacles[run["serial"]] or ("the drive" if run["serial"] in first else others)
            run["waits_for"] = "" if run["state"] == "running" else waits
            first.add(run["serial"])
        return runs

    def drives(self) -> list[dict[str, Any]]:
        """Return all drives, with their state (running, held, reserved or idle) and why nothing new starts on them."""
        counts = (
            select(
                REQUEST.c.serial,
                func.count().filter(RUN.c.state == "running").label("running"),
                func.count().filter(RUN.c.state == "queued").label("queued"),
            )
            .join_from(REQUEST, RUN)
            .group_by(REQUEST.c.serial)
            .subquery()
        )
        query = (
            select(DRIVE, HOST.c.maintenance, _silent().label("silent"), counts.c.running, counts.c.queued)
            .join_from(DRIVE, HOST, HOST.c.name == DRIVE.c.claimed_by_host, isouter=True)
            .join(counts, counts.c.serial == DRIVE.c.serial, isouter=True)
            .order_by(DRIVE.c.claimed_by_host, DRIVE.c.serial)
        )
        drives = self._rows(query)
        for drive in drives:
            running, queued = drive.pop("running") or 0, drive["queued"] or 0
            held = drive["held"] or drive["health"] in ("bad", "retired")
            state = "running" if running else "held" if held else "reserved" if queued else "idle"
            silent, maintenance = drive.pop("silent"), drive.pop("maintenance")
            reasons = {
                "the host": drive["claimed_by_host"] is None,
                f"a release (health: {drive['health']})": drive["health"] in ("bad", "retired"),
                f"a release ({drive['held']})": bool(drive["held"]),
                "the end of the maintenance": bool(maintenance),
                "the host, which is silent": bool(silent),
            }
            waits_for = next((reason for reason, holds in reasons.items() if holds), "")
            drive |= {"state": "unknown" if silent and state != "held" else state, "queued": queued}
            drive["waits_for"] = waits_for
        return drives

    def hosts(self) -> list[dict[str, Any]]:
        """Return all hosts, with the seconds since their agents called (None: never) and their state."""
        age = func.extract("epoch", func.now() - HOST.c.last_seen).label("seconds_ago")
        drives = select(func.count()).where(DRIVE.c.claimed_by_host == HOST.c.name).scalar_subquery().label("drives")
        hosts = self._rows(select(HOST, age, drives).order_by(HOST.c.name))
        for host in hosts:
            age_seconds = host["seconds_ago"]
            host["seconds_ago"] = None if age_seconds is None else float(age_seconds)
            silent = age_seconds is None or age_seconds > SILENT_SECONDS
            host["state"] = "silent" if silent else "maintenance" if host["maintenance"] else "ready"
        return hosts

    def ingest_failures(self) -> int:
        """Return how many results were received but not stored: the store refused them, or their manifest is bad."""
        count = func.count().label("failures")
        query = select(count).select_from(RECEIPT).where(RECEIPT.c.outcome.in_(("kept", "refused")))
        return int(self._rows(query)[0]["failures"])

    def stop(self, run: str, *, at_once: bool = False, by: str = "") -> str:
        """Cancel a run that waits, or ask its agent to stop it; return what happens now.  Raises NotRunning.

        ``by`` is the person who asks for it; without a name, it is the role of this connection.
        """
        with self.transaction() as connection:
            person = by or str(connection.scalar(select(func.session_user())))
            found = self._run(connection, run)
            run_id = found["run_id"]
            if found["state"] not in UNFINISHED:
                hint = "snia-pts lab runs shows all runs."
                raise NotRunning(path=str(run_id), reason=f"it is {found['state']}", hint=hint)
            if self._cancelled(connection, run_id):
                values = {"state": "cancelled", "ended": func.now()}
                said = "cancelled before it started"
            else:
                values = {"stop": "now" if at_once else "point"}
                said = "its agent stops it now" if at_once else "its agent stops it after the current point"
            connection.execute(update(RUN).where(RUN.c.run_id == run_id).values(**values, stopped_by=person))
            message = f"{person}: {said}"
            self._note(connection, "stop", message, run_id=run_id, host=found["host"], serial=found["serial"])
        return said

    @staticmethod
    def _cancelled(connection: Connection, run_id: UUID) -> bool:
        """Cancel the job of a run that waits and was not started; return whether that was so.

        A job with the priority ``FIRST`` may wait while its run goes on, so that only the agent can stop it.
        """
        query = text(
            "SELECT id FROM procrastinate_jobs WHERE queueing_lock = :run AND status = 'todo' AND priority < :first"
        )
        job = connection.execute(query, {"run": str(run_id), "first": FIRST}).scalar()
        return job is not None and cancel_job(_psycopg(connection), int(job))

    def resume(self, run: str, *, from_purge: bool = False) -> str:
        """Add a run that stopped, failed or is lost to its queue again; return its host.  Raises NotResumable."""
        with self.transaction() as connection:
            found = self._run(connection, run)
            run_id, host, serial = found["run_id"], found["host"], found["serial"]
            if found["state"] not in RESUMABLE:
                hint = "snia-pts lab runs shows all runs; those that stopped, failed or are lost can be resumed."
                raise NotResumable(path=str(run_id), reason=f"it is {found['state']}", hint=hint)
            policy = "from-purge" if from_purge else "rule"
            values = {"state": "queued", "resume": policy, "stop": "", "stopped_by": "", "ended": None}
            connection.execute(update(RUN).where(RUN.c.run_id == run_id).values(values))
            # A run that is lost holds its drive; the person who resumes it has decided.
            held = update(DRIVE).where(DRIVE.c.serial == serial, DRIVE.c.held == f"run {run_id} is lost")
            connection.execute(held.values(held=""))
            self._defer(connection, run_id, host, serial, MAX_PRIORITY + 1)
            self._note(connection, "resume", policy, run_id=run_id, host=host, serial=serial)
        return str(host)

    def follow(self, run: str) -> Iterator[list[LogEntry]]:
        """Yield what happened to a run and what it printed, in order: all so far, then what is new at each step.

        Ends after the run has; an empty list is nothing new.  Raises UsageError.
        """
        event = output = 0
        with self.transaction() as connection:
            run_id = self._run(connection, run)["run_id"]
        events = select(EVENT.c.id, EVENT.c.at, EVENT.c.kind, EVENT.c.message).where(EVENT.c.run_id == run_id)
        pieces = select(OUTPUT.c.id, OUTPUT.c.at, OUTPUT.c.content).where(OUTPUT.c.run_id == run_id)
        state = select(RUN.c.state).where(RUN.c.run_id == run_id)
        while True:
            has_ended = self._rows(state)[0]["state"] not in UNFINISHED
            found = self._rows(events.where(EVENT.c.id > event).order_by(EVENT.c.id))
            printed = self._rows(pieces.where(OUTPUT.c.id > output).order_by(OUTPUT.c.id))
            entries = [LogEntry(at=row["at"], event=row["kind"], text=row["message"]) for row in found]
            entries += [
                LogEntry(at=row["at"], event="", text=row["content"].decode("utf-8", "replace")) for row in printed
            ]
            event = max((row["id"] for row in found), default=event)
            output = max((row["id"] for row in printed), default=output)
            yield sorted(entries, key=lambda entry: entry.at)
            if has_ended:
                return

    def series(self, run_id: UUID) -> tuple[TimeSeries, ...]:
        """Return the values over time of a run in progress, as its agent reported them last."""
        rows = self._rows(select(RUN.c.series).where(RUN.c.run_id == run_id))
        return parse_series(rows[0]["series"]) if rows else ()

    def last_output(self, run_id: UUID) -> str:
        """Return the end of what the processes of a run printed; each piece has at least a line, or 64 KiB."""
        query = (
            select(OUTPUT.c.content).where(OUTPUT.c.run_id == run_id).order_by(OUTPUT.c.id.desc()).limit(_LAST_PIECES)
        )
        return b"".join(row["content"] for row in reversed(self._rows(query))).decode("utf-8", "replace")

    def hold(self, serial: str, reason: str) -> None:
        """Start nothing new on a drive until it is released."""
        self._change_drive(serial, "hold", reason, held=reason)

    def release(self, serial: str) -> None:
        """End the hold of a drive, or its retirement; a drive in bad health is unknown again."""
        self._change_drive(serial, "release", held="", health="unknown")

    def retire(self, serial: str) -> None:
        """Start nothing new on a drive, and accept no requests for it."""
        self._change_drive(serial, "retire", health="retired")

    def _change_drive(self, serial: str, kind: str, message: str = "", **values: str) -> None:
        with self.transaction() as connection:
            changed = connection.execute(update(DRIVE).where(DRIVE.c.serial == serial).values(**values))
            if not changed.rowcount:
                known = connection.execute(select(DRIVE.c.serial)).scalars().all()
                hint = suggestion(serial, known) or "snia-pts lab drives lists the drives."
                raise UsageError(detail=f"No agent has a drive with serial number {serial}.", hint=hint)
            self._note(connection, kind, message, serial=serial)

    def set_maintenance(self, host: str, *, on: bool) -> None:
        """Let a host start nothing new, or end that."""
        with self.transaction() as connection:
            changed = connection.execute(update(HOST).where(HOST.c.name == host).values(maintenance=on))
            if not changed.rowcount:
                known = connection.execute(select(HOST.c.name)).scalars().all()
                hint = suggestion(host, known) or "snia-pts lab hosts lists the hosts."
                raise UsageError(detail=f"The lab has no host {host}.", hint=hint)
            self._note(connection, "maintenance" if on else "end of maintenance", host=host)

    @staticmethod
    def _run(connection: Connection, run: str) -> dict[str, Any]:
        """Return the only run whose number begins with ``run``, locked.  Raises UsageError."""
        start = run.lower()
        hint = "snia-pts lab runs shows all runs."
        if not start or set(start) - set("0123456789abcdef-"):
            raise UsageError(detail=f"{run!r} is not the number of a run.", hint=hint)
        query = select(RUN, REQUEST.c.host, REQUEST.c.serial).join_from(RUN, REQUEST)
        matching = query.where(cast(RUN.c.run_id, Text).startswith(start, autoescape=True))
        found = connection.execute(matching.limit(2).with_for_update(of=RUN)).mappings().all()
        if len(found) != 1:
            detail = f"Several runs begin with {run}." if found else f"The lab has no run {run}."
            raise UsageError(detail=detail, hint=hint)
        return dict(found[0])

    def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        with self.transaction() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def reason_of(run: Mapping[str, Any]) -> str:
    """Return why a run ended as it did, in one line, with the person who stopped or cancelled it."""
    is_stopped = run["state"] in ("stopped", "cancelled") and run["stopped_by"]
    person = f"{run['stopped_by']} {'stopped' if run['state'] == 'stopped' else 'cancelled'} it. " if is_stopped else ""
    return one_line(f"{person}{run['message']}".strip())


def _campaign_obstacle(drive: Mapping[str, Any]) -> str:
    """Return why a drive cannot be in a campaign, or an empty text."""
    if drive["claimed_by_host"] is None:
        return "it is no longer in any host"
    if drive["health"] in ("bad", "retired"):
        return f"its health is {drive['health']}; snia-pts lab release ends that"
    return f"it is held ({drive['held']}); snia-pts lab release ends that" if drive["held"] else ""


def _silent() -> ColumnElement[bool]:
    """Whether the agent of a host has not called for a while, or never."""
    limit = func.make_interval(0, 0, 0, 0, 0, 0, SILENT_SECONDS)
    return func.coalesce(HOST.c.last_seen < func.now() - limit, True)


def _psycopg(connection: Connection) -> psycopg.Connection:
    """Return the connection of the driver, which is in the same transaction."""
    driver_connection = connection.connection.driver_connection
    return cast_type("psycopg.Connection", driver_connection)
