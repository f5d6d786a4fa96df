"""The health log of a drive: its counters, and what two readings say about the time between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..units import GIB, MAX_QUANTITY, Amount, Difference, capacity

#: The meaning of a value:
#:
#: * ``host written``, ``host read``, ``media written``: bytes;
#: * ``fault``, ``heat``, ``power``: counts of faults, times above a temperature threshold and counts of power cycles,
#:   which should not increase;
#: * ``pending``: a count of faults from which the drive removes those that it repairs;
#: * ``count``: another count;
#: * ``spare``: the spare blocks in percent;
#: * ``state``: should always be 0.
Role = Literal[
    "", "host written", "host read", "media written", "fault", "heat", "power", "pending", "count", "spare", "state"
]
#: Values that never decrease.
_COUNTS: tuple[Role, ...] = ("host written", "host read", "media written", "fault", "heat", "power", "count")
#: What it means if the log contradicts the test.
_WRONG_LOG = "the drive's log is wrong, was reset, or was not saved before a power failure"
#: A drive's count of host I/O may fall short of the test's by this share or by this many bytes.  NVMe counts in units
#: of 512 000 bytes, other drives in nominal units of up to 1 GiB, and some count in GiB but call the unit GB, so that
#: their number is 7 % lower; a unit that is not full is not counted, and a count may be a little late.
_SHORT_SHARE, _SHORT_BYTES = 0.10, 2 * GIB

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
    """Return each value of two readings: those of ``before`` in its order, then those that only ``after`` has."""
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
    """Yield the alarms of a drive, each as a short name and a text.

    They are the states that the drive warns of, new faults, times of excessive heat, power cycles, counts that
    decreased, and reserves that increased.  A test that was ``interrupted``, perhaps by a power cut,
    has no alarm for power cycles.
    """
    all_changes = changes(before, after)
    states = [
        f"{change.name} is {_latest_value(change):.15g}"
        for change in all_changes
        if change.role == "state" and _latest_value(change)
    ]
    if states:
        yield "state of the drive", f"the drive reports: {'; '.join(states)}"
    kinds: tuple[tuple[Sequence[Role], str], ...] = (
        (("fault", "pending"), "faults of the drive"),
        (("heat",), "heat of the drive"),
        *(() if interrupted else ((("power",), "power of the drive"),)),
    )
    for roles, what in kinds:
        if increases := _changed(all_changes, roles, 1):
            yield what, f"new during the test: {increases}"
    if decreases := _changed(all_changes, _COUNTS, -1):
        yield "counters of the drive", f"they decreased during the test ({_WRONG_LOG}): {decreases}"
    if increases := _changed(all_changes, ("spare",), 1):
        yield "counters of the drive", f"spare blocks increased during the test ({_WRONG_LOG}): {increases}"


def _changed(all_changes: Iterable[Change], roles: Sequence[Role], sign: int) -> str:
    """Return the values with one of ``roles`` that increased (``sign`` 1) or decreased (-1), with both readings."""
    return "; ".join(
        f"{change.name} is {change.after:.15g}, and was {change.before:.15g}"
        for change in all_changes
        if change.role in roles and change.difference is not None and sign * change.difference > 0
    )


def uncounted_io(
    before: Health | None, after: Health | None, *, written_bytes: int, read_bytes: int, interrupted: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the counts of host I/O that increased by less than the test wrote or read, each as a name and a text.

    A drive that lost power may have lost counts that it had not saved: a test that was ``interrupted`` is judged only
    if the drive reports that it was not powered on again.
    """
    all_changes = changes(before, after)
    power_cycles = [change.difference for change in all_changes if change.role == "power"]
    if interrupted and (not power_cycles or any(power_cycles)):
        return
    for role, verb, tested in (("host written", "wrote", written_bytes), ("host read", "read", read_bytes)):
        for change in all_changes:
            if change.role != role or change.difference is None or change.difference < 0:
                continue  # A decrease is reported as such.
            if tested - change.difference > max(_SHORT_SHARE * tested, _SHORT_BYTES):
                detail = (
                    f"{_source(change)} increased by {capacity(change.difference)}, but the test alone {verb} "
                    f"{capacity(tested)} ({_WRONG_LOG})"
                )
                yield "counters of the drive", detail


def _latest_value(change: Change) -> float:
    """Return the latest reported value; 0 if there is none."""
    value = change.before if change.after is None else change.after
    return value or 0.0
