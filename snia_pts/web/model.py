"""The values that the pages and the API show: drives, runs, the queue, hosts, and stored results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..runner.live import LiveState, TimeSeries
from ..store.statistics import Group

DriveState = Literal["running", "held", "reserved", "idle", "unknown"]
FileKind = Literal["report", "journal", "result", "log", "other"]
RunState = Literal[
    "queued",
    "starting",
    "running",
    "stopped",
    "finished",
    "failed",
    "lost",
    "refused",
    "cancelled",
    "not started",
    "unreadable",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviationView:
    """A difference from the standard: ``what`` is ``actual`` instead of ``standard`` by ``clause``."""

    what: str
    actual: str
    standard: str
    clause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningView:
    """A fact that a reader must know but that is not a deviation."""

    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run: where it stands, and its live values.

    ``id`` has only letters, digits and ``._:-``, and names the run in addresses.  ``title`` is the test's name in
    words.  ``drive`` is the description of the target, ``drive_id`` its serial number, or its name without one.
    ``updated`` is the time of the last entry of the journal.  ``detail`` explains the state, ``verdict`` is that of a
    run that ended.  ``virtual``: its times are those of a simulated drive.  ``stopping``: it was asked to stop.
    ``missed_limits``: it finished, and missed limits of the operator; False if that is not known.  ``live`` is None
    until the first step.  Without ``deviations_known``, deviations and warnings are empty because they are not known.
    """

    id: str
    folder: str
    state: RunState
    test: str = ""
    title: str = ""
    drive: str = ""
    drive_id: str = ""
    host: str = ""
    started: str = ""
    updated: str = ""
    detail: str = ""
    verdict: str = ""
    steady: bool | None = None
    missed_limits: bool = False
    virtual: bool = False
    stopping: bool = False
    live: LiveState | None = None
    deviations_known: bool = True
    deviations: tuple[DeviationView, ...] = ()
    warnings: tuple[WarningView, ...] = ()

    @property
    def in_progress(self) -> bool:
        """Whether a process performs the run."""
        return self.state in ("starting", "running")

    def seconds_left(self, now: datetime) -> tuple[float, float] | None:
        """Return the bounds of the remaining time; None if they are unknown.

        The time since the last entry of the journal counts, except for a simulated drive, whose time is virtual.
        """
        live = self.live
        if live is None or live.most_seconds_left is None or not self.in_progress:
            return None
        since = 0.0 if self.virtual else max(0.0, (now - datetime.fromisoformat(self.updated)).total_seconds())
        least = min(live.most_seconds_left, live.least_seconds_left or 0.0)
        return max(0.0, least - since), max(0.0, live.most_seconds_left - since)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A file of a run folder: its path in the folder, its size and its kind."""

    name: str
    size_bytes: int
    kind: FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """A limit of the operator, the measured value (None without one), and whether it is met."""

    metric: str
    at: str
    unit: str
    minimum: float | None
    maximum: float | None
    value: float | None
    met: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A run with everything that its page shows.

    ``series`` are the charts over time.  ``log`` are the last lines of its log.  ``resume_detail`` says what a resume
    would keep and discard, ``stop_detail`` what a stop would; empty if the run cannot be resumed or stopped.
    ``serial_required``: a resume destroys data, so that the drive's serial number must be typed.
    """

    run: RunView
    series: tuple[TimeSeries, ...]
    log: tuple[str, ...]
    files: tuple[FileView, ...]
    limits: tuple[LimitView, ...] = ()
    stop_detail: str = ""
    resume_detail: str = ""
    serial_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveView:
    """A drive: ``id`` is its serial number, or its name without one.

    ``state`` is that of what is done with it now; ``health`` and ``held`` (the reason) are those of a lab.  ``run`` is
    the id of its run in progress, else of the last one; empty without any.  ``warning_celsius`` is the temperature at
    which the drive warns (NVMe WCTEMP), for a drive under test; None if it is not known.
    """

    id: str
    model: str
    capacity_bytes: int
    kind: str
    state: DriveState
    firmware: str = ""
    bus: str = ""
    host: str = ""
    health: str = ""
    held: str = ""
    celsius: float | None = None
    warning_celsius: float | None = None
    run: str = ""
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A run that waits, or runs: ``position`` is its place on its drive, from 1; ``waits_for`` is empty if it runs.

    ``title`` is the test's name in words.
    """

    run: str
    drive_id: str
    model: str
    host: str
    test: str
    title: str
    state: RunState
    position: int
    priority: int = 0
    waits_for: str = ""
    submitted: str = ""
    submitter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host of a lab: ``seconds_ago`` is the time since its agent called; None if it never did."""

    name: str
    state: Literal["ready", "maintenance", "silent"]
    drives: int
    version: str = ""
    seconds_ago: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything at one time, in ISO 8601.

    ``runs`` are the newest first.  ``free_bytes`` is the free space for the runs in the folder; None if it is unknown.
    ``ingest_failures`` is the number of results that the controller of a lab received but did not store; None without
    a lab.
    """

    time: str
    drives: tuple[DriveView, ...] = ()
    runs: tuple[RunView, ...] = ()
    queue: tuple[QueueEntry, ...] = ()
    hosts: tuple[HostView, ...] = ()
    free_bytes: int | None = None
    ingest_failures: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultQuery:
    """Which stored results to list; an empty text means all."""

    test: str = ""
    model: str = ""
    serial: str = ""
    firmware: str = ""
    host: str = ""
    since: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """A stored result; ``number`` is its number in the store, ``title`` the test's name in words.

    ``run`` is the id of its run, whose page links to its reports, if that is in the folder that is shown; else empty.
    """

    number: int
    test: str
    title: str
    model: str
    serial: str
    firmware: str
    started: str
    verdict: str
    conformant: bool
    folder: str
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricView:
    """A metric of a test at one of its points."""

    test: str
    metric: str
    at: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendValue:
    """The value of a metric in a stored run; ``group`` is the run's value of the column ``by`` of the trend."""

    number: int
    started: str
    group: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendView:
    """A metric over stored runs in the order of their starts, and the groups of runs with equal ``by``."""

    metric: str
    at: str
    by: str
    unit: str
    groups: tuple[Group, ...]
    values: tuple[TrendValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadView:
    """The spread of a metric over the units of a model, which are serial numbers; ``outliers`` are some of these."""

    test: str
    metric: str
    at: str
    unit: str
    units: int
    mean: float
    deviation_percent: float | None
    minimum: float
    maximum: float
    specifications: int
    outliers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run of a comparison, with its letter and the id of its page."""

    letter: str
    run: str
    drive: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """A property that differs between compared runs, with the value of each; a reader must know a ``flagged`` one."""

    what: str
    values: tuple[str, ...]
    flagged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedValue:
    """A figure of one of the compared runs, with the difference from the run A and its 95 % confidence interval."""

    value: float | None = None
    difference_percent: float | None = None
    low_percent: float | None = None
    high_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigureView:
    """A figure of all compared runs, with a value for each."""

    metric: str
    at: str
    unit: str
    values: tuple[ComparedValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """Several runs of one test, compared with the first of them, the run A."""

    title: str
    runs: tuple[ComparedRun, ...]
    context: tuple[ContextView, ...]
    figures: tuple[ComparedFigureView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for a run.

    ``overrides`` are ``KEY=VALUE`` of the specification.  ``serial`` is the serial number that a person typed to
    confirm that the data of a drive are destroyed; a simulated drive and a file need none.
    """

    __pydantic_config__ = {"extra": "forbid"}
    test: str
    target: str
    test_class: Literal["enterprise", "client"] = "enterprise"
    overrides: tuple[str, ...] = ()
    size_bytes: int | None = None
    serial: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What a run of a request would do: its bounds, and every deviation and warning that is known before it.

    ``open_ended``: it may take longer, since some stimuli end with an amount of I/O.  ``virtual``: of virtual time.
    """

    title: str
    drive: str
    least_seconds: float
    most_seconds: float
    least_written_bytes: int
    most_written_bytes: int
    command: str
    open_ended: bool = False
    virtual: bool = False
    deviations: tuple[DeviationView, ...] = ()
    warnings: tuple[WarningView, ...] = ()
