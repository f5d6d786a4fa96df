"""The health log of a drive: its counters, and what two readings say about the time between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..units import MAX_QUANTITY, Amount, Difference

#: The meaning of a value: bytes written by the host and to the media, counts of faults, times of heat and counts of
#: power cycles that should not increase, and states that should always be 0.
Role = Literal["", "host written", "media written", "fault", "heat", "power", "state"]

Unit = Literal["", "bytes", "°C", "%", "min", "s", "h"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthValue:
    """A number that a drive reports, with the name that the drive's tool gives it.

    ``source`` is the log that contains it.  ``unit`` is empty for counts, and for numbers whose unit only the
    manufacturer knows (raw values of ATA attributes).
    """

    name: str
    value: Difference
    unit: Unit
    source: str
    role: Role = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthText:
    """A text in a log of the drive, such as the label of a firmware build, with its name and the log."""

    name: str
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A reading of a drive's own logs.

    ``unread`` lists what could not be read, and why.  ``evidence`` names the files in the run folder that hold the
    output of the drive's tools.
    """

    read_at: str
    figures: tuple[HealthValue, ...]
    unread: tuple[str, ...]
    evidence: tuple[str, ...]
    texts: tuple[HealthText, ...] = ()

    def figure(self, name: str, source: str) -> HealthValue | None:
        """Return a value; None if the drive does not report it."""
        return next((figure for figure in self.figures if (figure.name, figure.source) == (name, source)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A value before and after; None where it was not reported."""

    name: str
    unit: Unit
    source: str
    role: Role
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """The increase; None if one of the readings lacks the value."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAmplification:
    """Bytes written to the media and by the host between two readings, each with the log it comes from."""

    media_bytes: Amount
    host_bytes: Amount
    media_source: str
    host_source: str

    @property
    def factor(self) -> float:
        """Bytes written to the media per byte written by the host."""
        return self.media_bytes / self.host_bytes


def changes(before: Health | None, after: Health | None) -> tuple[Change, ...]:
    """Return every value of two readings, in the order of the first reading that has it."""
    by_name: dict[tuple[str, str], HealthValue] = {}
    for health in (before, after):
        for figure in health.figures if health else ():
            by_name.setdefault((figure.name, figure.source), figure)
    return tuple(
        Change(
            name=figure.name,
            unit=figure.unit,
            source=figure.source,
            role=figure.role,
            before=_value(before, figure),
            after=_value(after, figure),
        )
        for figure in by_name.values()
    )


def _value(health: Health | None, wanted: HealthValue) -> float | None:
    figure = health.figure(wanted.name, wanted.source) if health else None
    return figure.value if figure else None


def write_amplification(before: Health | None, after: Health | None) -> WriteAmplification | None:
    """Return the write amplification between two readings.

    None if the drive does not report both byte counts, or if one did not increase.
    """
    increases: dict[Role, Change] = {}
    for change in changes(before, after):
        if change.difference is not None and change.difference > 0:
            increases.setdefault(change.role, change)
    media, host = increases.get("media written"), increases.get("host written")
    if media is None or host is None or not media.difference or not host.difference:
        return None
    return WriteAmplification(
        media_bytes=min(MAX_QUANTITY, round(media.difference)),
        host_bytes=min(MAX_QUANTITY, round(host.difference)),
        media_source=_source(media),
        host_source=_source(host),
    )


def _source(change: Change) -> str:
    return f"{change.name}, {change.source}"


def alarms(before: Health | None, after: Health | None, *, interrupted: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the alarms of a drive, each as what and detail.

    They are the states that the drive warns of, new faults, times of excessive heat, power cycles, and amounts written
    that decreased.  A test that was ``interrupted``, perhaps by a power cut, has no alarm for power cycles.
    """
    all_changes = changes(before, after)
    states = [
        f"{change.name} is {_latest_value(change):.15g}"
        for change in all_changes
        if change.role == "state" and _latest_value(change)
    ]
    if states:
        yield "state of the drive", f"the drive reports: {'; '.join(states)}"
    kinds: tuple[tuple[Role, str], ...] = (
        ("fault", "faults of the drive"),
        ("heat", "heat of the drive"),
        ("power", "power of the drive"),
    )
    for role, what in kinds:
        increases = [
            f"{change.name} is {change.after:.15g}, and was {change.before:.15g}"
            for change in all_changes
            if change.role == role and change.difference is not None and change.difference > 0
        ]
        if increases and not (role == "power" and interrupted):
            yield what, f"new during the test: {'; '.join(increases)}"
    decreases = [
        f"{change.name} is {change.after:.15g}, and was {change.before:.15g}"
        for change in all_changes
        if change.role in ("host written", "media written") and change.difference is not None and change.difference < 0
    ]
    if decreases:
        yield "counters of the drive", f"they decreased during the test: {'; '.join(decreases)}"


def _latest_value(change: Change) -> float:
    """Return the latest reported value; 0 if there is none."""
    value = change.before if change.after is None else change.after
    return value or 0.0
