"""Sends a message about each end of a run of a lab, once to each channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Select, func, select
from sqlalchemy.dialects.postgresql import insert

from .operations import Lab
from .schema import DRIVE, EVENT, NOTIFICATION, REQUEST, RUN

Channel = Literal["mail", "webhook"]
#: The states in which a run ends, except that of a run which a person cancelled before its start.
ENDS = ("finished", "stopped", "failed", "lost", "refused")
#: An older end is not sent any more, so that the first call does not send the history of a lab.
_MAXIMUM_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """A run ended in a state of ``ENDS``; a run that was resumed has several ends.

    ``verdict`` is empty without a finished test; it and ``exit_code`` are unknown if the run goes on meanwhile.
    ``message`` is why it ended early, or which limits it missed.  ``folder`` is on its host.  ``held`` is why nothing
    new starts on the drive now, empty if nothing prevents that.
    """

    at: datetime
    state: str
    run_id: UUID
    host: str
    serial: str
    model: str
    test: str
    campaign: str
    folder: str
    verdict: str
    exit_code: int | None
    message: str
    held: str


#: Sends a message; returns why that failed, or an empty text.
Send = Callable[[RunEnd], str]


def notify(url: str, senders: Mapping[Channel, Send]) -> Iterator[tuple[Channel, str]]:
    """Send the ends of runs that were not sent yet, in order; yield each channel that failed, and why.

    After a failure, the next call continues with the message that failed.  Raises UsageError and LabError.
    """
    if not senders:
        return
    with Lab(url) as lab:
        for channel, send in senders.items():
            with lab.transaction() as connection:
                events = connection.execute(_unsent(channel)).scalars().all()
            for event_id in events:
                if reason := _send_once(lab, event_id, channel, send):
                    yield channel, reason
                    break


def _unsent(channel: Channel) -> Select[Any]:
    """Return the query for the recent ends of runs without a message."""
    sent = select(NOTIFICATION.c.event_id).where(
        NOTIFICATION.c.event_id == EVENT.c.id, NOTIFICATION.c.channel == channel
    )
    return (
        select(EVENT.c.id)
        .where(
            EVENT.c.at > func.now() - _MAXIMUM_AGE, EVENT.c.kind.in_(ENDS), EVENT.c.run_id.is_not(None), ~sent.exists()
        )
        .order_by(EVENT.c.id)
    )


def _send_once(lab: Lab, event_id: int, channel: Channel, send: Send) -> str:
    """Send a message, unless another process has sent it; return why that failed, or an empty text.

    Another process waits for the row that this transaction adds.  A process that is killed leaves no row, so that the
    message may be sent a second time, but it is never lost.
    """
    mark = insert(NOTIFICATION).values(event_id=event_id, channel=channel).on_conflict_do_nothing()
    with lab.transaction() as connection:
        if connection.execute(mark.returning(NOTIFICATION.c.event_id)).first() is None:
            return ""
        reason = send(_run_end(connection, event_id))
        if reason:
            connection.rollback()
    return reason


def _run_end(connection: Connection, event_id: int) -> RunEnd:
    event = EVENT.c
    columns = (event.at, event.kind, event.message, REQUEST, DRIVE.c.model, DRIVE.c.held, DRIVE.c.health)
    query = (
        select(*columns, RUN.c.folder, RUN.c.state, RUN.c.verdict, RUN.c.exit_code)
        .join_from(EVENT, REQUEST, REQUEST.c.run_id == event.run_id)
        .join(RUN, RUN.c.run_id == event.run_id)
        .join(DRIVE, DRIVE.c.serial == REQUEST.c.serial)
        .where(event.id == event_id)
    )
    row = connection.execute(query).mappings().one()
    goes_on = row["state"] != row["kind"]
    return RunEnd(
        at=row["at"],
        state=row["kind"],
        run_id=row["run_id"],
        host=row["host"],
        serial=row["serial"],
        model=row["model"],
        test=row["test"],
        campaign=row["campaign"],
        folder=row["folder"],
        verdict="" if goes_on else row["verdict"],
        exit_code=None if goes_on else row["exit_code"],
        message=row["message"],
        held=row["held"] or ("its health is bad" if row["health"] == "bad" else ""),
    )
