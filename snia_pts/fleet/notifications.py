"""Sends messages about the runs and drives of a lab, each once to each channel."""

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
#: The kinds of events with a message: a run ended, its drive is hot, or a person holds a drive.
KINDS = (*ENDS, "hot", "hold")
#: An older event is not sent any more, so that the first call does not send the history of a lab.
_MAXIMUM_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """The run of an event; ``folder`` is on its host.

    ``verdict`` is empty without a finished test; it and ``exit_code`` are unknown if the run goes on meanwhile.
    """

    run_id: UUID
    test: str
    campaign: str
    folder: str
    verdict: str
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabEvent:
    """An event of a kind of ``KINDS``; a run that was resumed has several ends.

    ``message`` is why the run ended early or which limits it missed, how hot the drive is, or why it is held.  ``held``
    is why nothing new starts on the drive now, empty if nothing prevents that.  ``run`` is None for a drive that a
    person holds.
    """

    at: datetime
    kind: str
    host: str
    serial: str
    model: str
    message: str
    held: str
    run: LabRun | None


#: Sends a message; returns why that failed, or an empty text.
Send = Callable[[LabEvent], str]


def notify(url: str, senders: Mapping[Channel, Send]) -> Iterator[tuple[Channel, str]]:
    """Send the messages that were not sent yet, in order; yield each channel that failed, and why.

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
    """Return the query for the recent events whose message was not sent."""
    sent = select(NOTIFICATION.c.event_id).where(
        NOTIFICATION.c.event_id == EVENT.c.id, NOTIFICATION.c.channel == channel
    )
    return (
        select(EVENT.c.id)
        .where(EVENT.c.at > func.now() - _MAXIMUM_AGE, EVENT.c.kind.in_(KINDS), ~sent.exists())
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
        reason = send(_event(connection, event_id))
        if reason:
            connection.rollback()
    return reason


def _event(connection: Connection, event_id: int) -> LabEvent:
    event = EVENT.c
    query = (
        select(event.at, event.kind, event.message, event.run_id, event.serial, event.host)
        .add_columns(DRIVE.c.model, DRIVE.c.held, DRIVE.c.health, DRIVE.c.claimed_by_host)
        .add_columns(REQUEST.c.test, REQUEST.c.campaign)
        .add_columns(RUN.c.folder, RUN.c.state, RUN.c.verdict, RUN.c.exit_code)
        .join_from(EVENT, DRIVE, DRIVE.c.serial == event.serial)
        .join(REQUEST, REQUEST.c.run_id == event.run_id, isouter=True)
        .join(RUN, RUN.c.run_id == event.run_id, isouter=True)
        .where(event.id == event_id)
    )
    row = connection.execute(query).mappings().one()
    has_ended = row["state"] == row["kind"]
    run = LabRun(
        run_id=row["run_id"],
        test=row["test"],
        campaign=row["campaign"],
        folder=row["folder"],
        verdict=row["verdict"] if has_ended else "",
        exit_code=row["exit_code"] if has_ended else None,
    )
    return LabEvent(
        at=row["at"],
        kind=row["kind"],
        host=row["host"] or row["claimed_by_host"] or "",
        serial=row["serial"],
        model=row["model"],
        message=row["message"],
        held=row["held"] or ("its health is bad" if row["health"] == "bad" else ""),
        run=run if row["run_id"] else None,
    )
