"""What a drive tells of its life: counters that grow, and what two readings of them say of the time between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..units import MAX_QUANTITY, Amount, Difference

#: What a figure means: bytes by the host and on the media, faults that should not grow, times of heat that should not
#: either, and what should be 0 at any time.
Role = Literal["", "host written", "media written", "fault", "heat", "state"]

Unit = Literal["", "bytes", "°C", "%", "min", "s", "h"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that a drive tells, by the name that the drive's tool gives it.

    ``source`` is the log that it stands in, ``unit`` is empty for what is counted, and for what only the maker of the
    drive knows (raw values of ATA attributes).
    """

    name: str
    value: Difference
    unit: Unit
    source: str
    role: Role = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthText:
    """A text in a log of the drive, such as the label of a firmware build, by its name and the log."""

    name: str
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A reading of a drive's own log.  ``unread`` says what could not be read, and why; empty where all could.

    ``evidence`` are the files in the run folder that hold what the drive's tools said.
    """

    at: str
    figures: tuple[Figure, ...]
    unread: tuple[str, ...]
    evidence: tuple[str, ...]
    texts: tuple[HealthText, ...] = ()

    def figure(self, name: str, source: str) -> Figure | None:
        """Return a figure; None where the drive does not tell it."""
        return next((each for each in self.figures if (each.name, each.source) == (name, source)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A figure before and after; None where it was not told then."""

    name: str
    unit: Unit
    source: str
    role: Role
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """By how much it grew."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAmplification:
    """Bytes written on the media, and by the host, between two readings, each with the log that tells it."""

    media_bytes: Amount
    host_bytes: Amount
    media_source: str
    host_source: str

    @property
    def factor(self) -> float:
        """Bytes on the media for each byte of the host."""
        return self.media_bytes / self.host_bytes


def changes(before: Health | None, after: Health | None) -> tuple[Change, ...]:
    """Return every figure of two readings, in the order of the first that has it."""
    found: dict[tuple[str, str], Figure] = {}
    for health in (before, after):
        for figure in health.figures if health else ():
            found.setdefault((figure.name, figure.source), figure)
    return tuple(
        Change(
            name=figure.name,
            unit=figure.unit,
            source=figure.source,
            role=figure.role,
            before=_value(before, figure),
            after=_value(after, figure),
        )
        for figure in found.values()
    )


def _value(health: Health | None, like: Figure) -> float | None:
    figure = health.figure(like.name, like.source) if health else None
    return figure.value if figure else None


def write_amplification(before: Health | None, after: Health | None) -> WriteAmplification | None:
    """Return what was written between two readings; None where the drive does not tell both, or went backwards."""
    grown: dict[Role, Change] = {}
    for change in changes(before, after):
        if change.difference is not None and change.difference > 0:
            grown.setdefault(change.role, change)
    media, host = grown.get("media written"), grown.get("host written")
    if media is None or host is None or not media.difference or not host.difference:
        return None
    return WriteAmplification(
        media_bytes=min(MAX_QUANTITY, round(media.difference)),
        host_bytes=min(MAX_QUANTITY, round(host.difference)),
        media_source=_from(media),
        host_source=_from(host),
    )


def _from(change: Change) -> str:
    return f"{change.name}, {change.source}"


def alarms(before: Health | None, after: Health | None) -> Iterator[tuple[str, str]]:
    """Give what a reader must know of a drive: what it warns of itself, faults that came, and that it was too hot."""
    found = changes(before, after)
    states = [f"{each.name} is {_last(each):.15g}" for each in found if each.role == "state" and _last(each)]
    if states:
        yield "state of the drive", f"the drive says of itself: {'; '.join(states)}"
    kinds: tuple[tuple[Role, str], ...] = (("fault", "faults of the drive"), ("heat", "heat of the drive"))
    for role, what in kinds:
        told = [
            f"{each.name} is {each.after:.15g}, and was {each.before:.15g}"
            for each in found
            if each.role == role and each.difference is not None and each.difference > 0
        ]
        if told:
            yield what, f"came during the test: {'; '.join(told)}"


def _last(change: Change) -> float:
    """Return what was told last."""
    value = change.before if change.after is None else change.after
    return value or 0.0
