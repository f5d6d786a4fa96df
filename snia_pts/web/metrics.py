"""The metrics of drives, runs, queue and hosts for Prometheus (docs/metrics.rst)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from .model import QueueEntry, RunView, Snapshot

#: The series of a run that has ended vanish after this time.
_KEPT_SECONDS = 3600.0
#: The maximum number of results per run.
_MAX_RESULTS = 6


def exposition(snapshot: Snapshot) -> bytes:
    """Return the metrics of a snapshot in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    return generate_latest(registry)


class _Collector:
    """Collects the metrics of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._now = datetime.fromisoformat(snapshot.time)
        runs = {run.id: run for run in snapshot.runs}
        #: Of each drive its run in progress, or its last one if it ended a short time ago.
        self._runs = [
            (drive.id, run) for drive in snapshot.drives if (run := runs.get(drive.run)) and self._is_recent(run)
        ]

    def _is_recent(self, run: RunView) -> bool:
        if run.state in ("starting", "running", "lost") or not run.updated:
            return True
        return (self._now - datetime.fromisoformat(run.updated)).total_seconds() < _KEPT_SECONDS

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._drives()
        yield from self._run_states()
        yield from self._run_values()
        yield from self._queue_and_hosts()
        yield from self._controller()

    def _drives(self) -> Iterator[Metric]:
        info = InfoMetricFamily("snia_pts_drive", "A drive; its label is its serial number.", labels=["drive"])
        state = _gauge("snia_pts_drive_state", "1 for the state of a drive.", "drive", "state")
        celsius = _gauge("snia_pts_drive_temperature_celsius", "The last temperature in a run in progress.", "drive")
        text = "The temperature at which a drive warns (WCTEMP)."
        warning = _gauge("snia_pts_drive_warning_temperature_celsius", text, "drive")
        for drive in self._snapshot.drives:
            texts = {name: getattr(drive, name) for name in ("model", "firmware", "host", "bus", "kind")}
            info.add_metric([drive.id], texts)
            state.add_metric([drive.id, drive.state], 1)
            if drive.celsius is not None and drive.state == "running":
                celsius.add_metric([drive.id], drive.celsius)
            if drive.warning_celsius is not None:
                warning.add_metric([drive.id], drive.warning_celsius)
        yield from (info, state, celsius, warning)

    def _run_states(self) -> Iterator[Metric]:
        info = InfoMetricFamily("snia_pts_run", "The run of a drive.", labels=["drive"])
        state = _gauge("snia_pts_run_state", "1 for the state of the run of a drive.", "drive", "state")
        missed = _gauge("snia_pts_run_missed_limits", "1 for a finished run that missed limits, else 0.", "drive")
        for drive, run in self._runs:
            info.add_metric([drive], {"run": run.id, "test": run.test})
            state.add_metric([drive, run.state], 1)
            if run.state == "finished":
                missed.add_metric([drive], run.missed_limits)
        yield from (info, state, missed)

    def _run_values(self) -> Iterator[Metric]:
        progress = _gauge("snia_pts_run_progress_ratio", "Progress, relative to the longest possible run.", "drive")
        left = _gauge("snia_pts_run_remaining_seconds", "The bounds of the remaining time.", "drive", "bound")
        number = _gauge("snia_pts_run_round", "The round in progress.", "drive")
        last = _gauge("snia_pts_run_last_step_timestamp_seconds", "Time of the last entry of the journal.", "drive")
        longest = _gauge("snia_pts_run_longest_step_seconds", "The longest step of the plan of a run.", "drive")
        written = CounterMetricFamily("snia_pts_run_write_bytes", "Bytes that the run has written.", labels=["drive"])
        iops = _gauge("snia_pts_result_iops", "The tracked variables in IOPS, of the last round.", "drive", "at")
        for drive, run in self._runs:
            live = run.live
            if run.updated:
                last.add_metric([drive], datetime.fromisoformat(run.updated).timestamp())
            if live is None or not run.in_progress:
                continue
            written.add_metric([drive], live.written_bytes)
            bounds = () if run.virtual else (("least", live.least_seconds_left), ("most", live.most_seconds_left))
            for bound, seconds in bounds:
                if seconds is not None:
                    left.add_metric([drive, bound], seconds)
            for gauge, value in (
                (progress, live.progress),
                (number, live.round_number),
                (longest, live.longest_step_seconds),
            ):
                if value is not None:
                    gauge.add_metric([drive], value)
            for variable in [one for one in live.variables if one.metric == "iops"][:_MAX_RESULTS]:
                at = " ".join(filter(None, (variable.series, variable.variable)))
                if variable.values and (result := variable.values[-1]) is not None:
                    iops.add_metric([drive, at], result)
        yield from (progress, left, number, last, longest, written, iops)

    def _queue_and_hosts(self) -> Iterator[Metric]:
        queue = _gauge("snia_pts_queue_jobs", "The runs in the queue of a lab, by drive and state.", "drive", "state")
        states = Counter((job.drive_id, _queue_state(job)) for job in self._snapshot.queue)
        for (drive, state), count in states.items():
            queue.add_metric([drive, state], count)
        seen = _gauge("snia_pts_agent_last_seen_timestamp_seconds", "Time of the last call of an agent.", "host")
        build = InfoMetricFamily("snia_pts_agent_build", "The version of an agent.", labels=["host"])
        for host in self._snapshot.hosts:
            build.add_metric([host.name], {"version": host.version})
            if host.seconds_ago is not None:
                seen.add_metric([host.name], self._now.timestamp() - host.seconds_ago)
        yield from (queue, seen, build)

    def _controller(self) -> Iterator[Metric]:
        free = _gauge("snia_pts_folder_free_bytes", "The free space for the runs in the folder.")
        if self._snapshot.free_bytes is not None:
            free.add_metric([], self._snapshot.free_bytes)
        failures = CounterMetricFamily("snia_pts_ingest_failures", "Results that were received, but not stored.")
        if self._snapshot.ingest_failures is not None:
            failures.add_metric([], self._snapshot.ingest_failures)
        yield from (free, failures)


def _queue_state(job: QueueEntry) -> str:
    """Return the state of a run in a queue; one that waits for nothing is ready, for a host that is gone blocked."""
    if job.state != "queued":
        return job.state
    return "blocked" if job.waits_for.startswith("the host") else "queued" if job.waits_for else "ready"


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)
