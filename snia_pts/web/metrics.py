"""The metrics of drives, runs, queue and hosts for Prometheus (docs/metrics.rst)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from .model import RunView, Snapshot

#: The media type of the text format that ``exposition`` returns.
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The series of a run that has ended vanish after this time.
_KEPT_SECONDS = 3600.0
#: The maximum number of results per run.
_MAX_RESULTS = 6


def exposition(snapshot: Snapshot) -> bytes:
    """Return the metrics of a snapshot in the text format of Prometheus."""
    families = (*_drives(snapshot), *_runs(snapshot), *_queue_and_hosts(snapshot), _free_space(snapshot))
    return "".join(line for family in families for line in family.lines()).encode()


@dataclass(frozen=True, slots=True)
class _Family:
    """The samples of one metric; they are written directly, because prometheus_client needs ten times as long."""

    name: str
    text: str
    kind: str = "gauge"
    samples: list[str] = field(default_factory=list)

    def add(self, labels: str, value: float) -> None:
        """Add a sample; ``labels`` are those of ``_labels``."""
        self.samples.append(f"{self.name}{{{labels}}} {float(value)}\n")

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text format."""
        yield f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"
        yield from self.samples


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _drives(snapshot: Snapshot) -> tuple[_Family, ...]:
    info = _Family("snia_pts_drive_info", "A drive; its label is its serial number.")
    state = _Family("snia_pts_drive_state", "1 for the state of a drive.")
    celsius = _Family("snia_pts_drive_temperature_celsius", "The last temperature in a run in progress.")
    warning = _Family("snia_pts_drive_warning_temperature_celsius", "The temperature at which a drive warns (WCTEMP).")
    for drive in snapshot.drives:
        label = _labels(drive=drive.id)
        info.add(f"{label},{_labels(model=drive.model, host=drive.host, kind=drive.kind)}", 1)
        state.add(f'{label},state="{drive.state}"', 1)
        if drive.celsius is not None and drive.state == "running":
            celsius.add(label, drive.celsius)
        if drive.warning_celsius is not None:
            warning.add(label, drive.warning_celsius)
    return info, state, celsius, warning


def _runs(snapshot: Snapshot) -> tuple[_Family, ...]:
    """Return the metrics of the run of each drive: that in progress, or the last one if it ended a short time ago."""
    info = _Family("snia_pts_run_info", "The run of a drive.")
    state = _Family("snia_pts_run_state", "1 for the state of the run of a drive.")
    progress = _Family("snia_pts_run_progress_ratio", "Progress, relative to the longest possible run.")
    left = _Family("snia_pts_run_remaining_seconds", "The bounds of the remaining time.")
    number = _Family("snia_pts_run_round", "The round in progress, or the last one.")
    last = _Family("snia_pts_run_last_step_timestamp_seconds", "Time of the last entry of the journal.")
    longest = _Family("snia_pts_run_longest_step_seconds", "The longest step of the plan of a run.")
    written = _Family("snia_pts_run_write_bytes_total", "Bytes that the run has written.", "counter")
    iops = _Family("snia_pts_result_iops", "The tracked variables in IOPS, of the last round.")
    runs, now = {run.id: run for run in snapshot.runs}, datetime.fromisoformat(snapshot.time)
    for drive in snapshot.drives:
        run = runs.get(drive.run)
        if run is None or not _is_recent(run, now):
            continue
        label, live = _labels(drive=drive.id), run.live
        info.add(f"{label},{_labels(run=run.id, test=run.test)}", 1)
        state.add(f'{label},state="{run.state}"', 1)
        if run.updated:
            last.add(label, datetime.fromisoformat(run.updated).timestamp())
        if live is None:
            continue
        written.add(label, live.written_bytes)
        bounds = () if run.virtual else (("least", live.least_seconds_left), ("most", live.most_seconds_left))
        for bound, seconds in bounds:
            if seconds is not None:
                left.add(f'{label},bound="{bound}"', seconds)
        for family, value in (
            (progress, live.progress),
            (number, live.round_number),
            (longest, live.longest_step_seconds),
        ):
            if value is not None:
                family.add(label, value)
        for variable in [one for one in live.variables if one.metric == "iops"][:_MAX_RESULTS]:
            at = " ".join(filter(None, (variable.series, variable.variable)))
            if variable.values and (result := variable.values[-1]) is not None:
                iops.add(f"{label},{_labels(at=at)}", result)
    return info, state, progress, left, number, last, longest, written, iops


def _is_recent(run: RunView, now: datetime) -> bool:
    if run.state in ("starting", "running", "lost") or not run.updated:
        return True
    return (now - datetime.fromisoformat(run.updated)).total_seconds() < _KEPT_SECONDS


def _queue_and_hosts(snapshot: Snapshot) -> tuple[_Family, ...]:
    queue = _Family("snia_pts_queue_jobs", "The runs in the queue of a lab, by drive and state.")
    for (drive, state), count in Counter((job.drive_id, job.state) for job in snapshot.queue).items():
        queue.add(_labels(drive=drive, state=state), count)
    seen = _Family("snia_pts_agent_last_seen_timestamp_seconds", "Time of the last call of an agent.")
    build = _Family("snia_pts_agent_build_info", "The version of an agent.")
    now = datetime.fromisoformat(snapshot.time).timestamp()
    for host in snapshot.hosts:
        build.add(_labels(host=host.name, version=host.version), 1)
        if host.seconds_ago is not None:
            seen.add(_labels(host=host.name), now - host.seconds_ago)
    return queue, seen, build


def _free_space(snapshot: Snapshot) -> _Family:
    free = _Family("snia_pts_folder_free_bytes", "The free space for the runs in the folder.")
    if snapshot.free_bytes is not None:
        free.add("", snapshot.free_bytes)
    return free
