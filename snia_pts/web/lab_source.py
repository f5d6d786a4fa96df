"""The runs, drives and hosts of a lab, from its database, as the pages and the API show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from ..errors import LimitsMissed, NotConfirmed, UnknownRun, UsageError
from ..fleet.campaign import Cost, plans_of
from ..fleet.drive_facts import parse_facts
from ..fleet.live_values import LiveValues, parse_live_values
from ..fleet.operations import RESUMABLE, Lab, reason_of
from ..fleet.request import ALL, RequestOptions, RunRequest, parse_request, request_json
from ..model.run_options import SIMULATED
from ..spec.reader import title_of
from ..text import printable, suggestion
from .folder_source import LOG_LINES, FolderSource, deviation_views, warning_views
from .model import (
    ComparisonView,
    DriveView,
    HostView,
    MetricView,
    PlanView,
    QueueEntry,
    Request,
    ResultQuery,
    ResultView,
    RunDetail,
    RunView,
    Snapshot,
    SpreadView,
    TrendView,
)
from .source import UNNAMED

#: What a stop does, by the state of the run.
_STOP_DETAILS = {"queued": "it is cancelled", "running": "it stops after its current point or sample, which is kept"}


class LabSource:
    """A lab, and the folder of the results that ``snia-pts lab collect`` received: it has the files of its runs."""

    has_lab = True

    def __init__(self, url: str, collected: FolderSource) -> None:
        self._lab, self._collected = Lab(url), collected

    @property
    def name(self) -> str:
        """See ``web/source.py``."""
        return printable(self._lab.name)

    @property
    def has_results(self) -> bool:
        """See ``web/source.py``."""
        return self._collected.has_results

    def snapshot(self) -> Snapshot:
        """See ``web/source.py``."""
        rows = self._lab.runs()
        live = {str(row["run_id"]): values for row in rows if (values := parse_live_values(row["live"]))}
        runs = [_run_view(row, live.get(str(row["run_id"]))) for row in reversed(rows)]
        by_drive: dict[str, list[RunView]] = {}
        for run in sorted(runs, key=_recency, reverse=True):
            by_drive.setdefault(run.drive_id, []).append(run)
        return Snapshot(
            time=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            runs=tuple(runs),
            drives=tuple(
                _drive_view(row, by_drive.get(printable(row["serial"]), ()), live) for row in self._lab.drives()
            ),
            queue=tuple(_queue(self._lab.queue())),
            hosts=tuple(map(_host_view, self._lab.hosts())),
            free_bytes=self._collected.free_bytes,
            ingest_failures=self._lab.ingest_failures(),
        )

    def run(self, run_id: str) -> RunDetail:
        """See ``web/source.py``: the files are those of the results that were collected."""
        run = self._require_run(run_id)
        try:
            detail = self._collected.run(run_id)
        except UnknownRun:
            detail = RunDetail(run=run, series=(), log=self._log(run), files=())
        collected = detail.run
        shown = run
        if run.live:
            detail = replace(detail, series=self._lab.series(UUID(run.id)), log=self._log(run))
        else:
            shown = replace(
                run,
                drive=collected.drive or run.drive,
                steady=collected.steady,
                virtual=collected.virtual,
                live=collected.live,
                deviations_known=collected.deviations_known,
                deviations=collected.deviations,
                warnings=collected.warnings,
            )
        can_resume = run.state in RESUMABLE
        return replace(
            detail,
            run=shown,
            stop_detail=_STOP_DETAILS.get(run.state, ""),
            resume_detail="its agent continues it; its drive is tested again" if can_resume else "",
            serial_required=can_resume,
        )

    def _log(self, run: RunView) -> tuple[str, ...]:
        """Return the last lines that the processes of a run printed."""
        lines = self._lab.last_output(UUID(run.id)).splitlines()
        return tuple(map(printable, lines[-LOG_LINES:]))

    def open_file(self, run_id: str, name: str) -> BinaryIO:
        """See ``web/source.py``."""
        return self._collected.open_file(run_id, name)

    def results(self, query: ResultQuery) -> Sequence[ResultView]:
        """See ``web/source.py``."""
        return self._collected.results(query)

    def metrics(self) -> Sequence[MetricView]:
        """See ``web/source.py``."""
        return self._collected.metrics()

    def trend(self, query: ResultQuery, *, metric: str, at: str, by: str) -> TrendView:
        """See ``web/source.py``."""
        return self._collected.trend(query, metric=metric, at=at, by=by)

    def spread(self, query: ResultQuery, *, metric: str) -> Sequence[SpreadView]:
        """See ``web/source.py``."""
        return self._collected.spread(query, metric=metric)

    def comparison(self, run_ids: Sequence[str]) -> ComparisonView:
        """See ``web/source.py``: the runs are those whose results were collected."""
        return self._collected.comparison(run_ids)

    def plan(self, request: Request) -> PlanView:
        """See ``web/source.py``: the target is the serial number of a drive."""
        drive, asked = self._drive(request), self._request(request)
        facts = parse_facts(drive["facts"])
        if facts is None:
            detail = f"The capacity of drive {printable(request.target)} is not known."
            raise UsageError(detail=detail, hint="Its agent has not reported it; upgrade and restart the agent.")
        cost = Cost.of(plans_of(asked.test, asked.options, asked.model, facts))
        words = ["snia-pts", "lab", "submit", "--serial", asked.serial, "--test", asked.test]
        words += ["--class", request.test_class, *(word for one in request.overrides for word in ("--set", one))]
        return PlanView(
            title=_title(asked.test, asked.options.pts),
            drive=printable(f"{drive['model']}, serial {drive['serial']}, {drive['claimed_by_host']}"),
            least_seconds=cost.least_seconds,
            most_seconds=cost.greatest_seconds,
            least_written_bytes=cost.least_bytes,
            most_written_bytes=cost.greatest_bytes,
            open_ended=cost.open_ended,
            command=printable(shlex.join(words)),
        )

    def submit(self, request: Request) -> str:
        """See ``web/source.py``: the typed serial number must be that of the drive; its agent compares it again."""
        asked = self._request(request)
        if request.serial != asked.serial:
            raise _another_serial(asked.serial)
        facts = parse_facts(self._drive(request)["facts"])
        plans_of(asked.test, asked.options, asked.model, facts)  # raises the error with which the run would be refused
        self._lab.submit([asked])
        return str(asked.run_id)

    def _request(self, request: Request) -> RunRequest:
        """Return the request for a drive of the lab; raises SpecError and UsageError."""
        if request.size_bytes is not None:
            raise UsageError(detail="A drive has a size of its own.", hint="Omit the size.")
        options = RequestOptions(test_class=request.test_class, overrides=request.overrides)
        drive = self._drive(request)
        values: Mapping[str, Any] = {"serial": drive["serial"], "model": drive["model"], "test": request.test}
        return parse_request(request_json(RunRequest(run_id=uuid4(), options=options, **values)))

    def _drive(self, request: Request) -> Mapping[str, Any]:
        drives = {drive["serial"]: drive for drive in self._lab.drives()}
        if request.target not in drives:
            hint = suggestion(request.target, drives) or "The page of the drives lists all of them."
            detail = f"No agent has a drive with serial number {printable(request.target)[:80]}."
            raise UsageError(detail=detail, hint=hint)
        return drives[request.target]

    def stop(self, run_id: str, *, at_once: bool = False, by: str = "") -> str:
        """See ``web/source.py``."""
        return self._lab.stop(self._require_run(run_id).id, at_once=at_once, by=by or UNNAMED)

    def resume(self, run_id: str, *, serial: str = "") -> str:
        """See ``web/source.py``: the typed serial number must be that of the drive; its agent compares it again."""
        run = self._require_run(run_id)
        if serial != run.drive_id:
            raise _another_serial(run.drive_id)
        return f"it waits for its drive on {self._lab.resume(run.id)}"

    def hold(self, drive_id: str, reason: str) -> str:
        """See ``web/source.py``."""
        if not reason.strip():
            raise UsageError(detail="A hold needs a reason.", hint="For example: cable is replaced.")
        self._lab.hold(drive_id, printable(reason.strip())[:200])
        return "nothing new starts on it"

    def release(self, drive_id: str) -> str:
        """See ``web/source.py``."""
        self._lab.release(drive_id)
        return "the next run in its queue can start"

    def _require_run(self, run_id: str) -> RunView:
        try:
            wanted = UUID(run_id)
        except ValueError:
            wanted = None
        for row in self._lab.runs():
            if row["run_id"] == wanted:
                return _run_view(row, parse_live_values(row["live"]))
        raise UnknownRun(path=f"run {printable(run_id)[:80]}", reason="the lab has no such run")


def _another_serial(serial: str) -> NotConfirmed:
    reason = "the serial number that was typed is not that of the drive"
    return NotConfirmed(path=printable(serial), reason=reason, hint="Type the serial number that is on the drive.")


def _title(test: str, pts: str) -> str:
    """Return the name of a requested test in words, the same before, during and after its run."""
    return "All basic tests" if test == ALL else title_of(test, pts)


def _run_view(row: Mapping[str, Any], live: LiveValues | None) -> RunView:
    title = _title(row["test"], row["pts"])
    return RunView(
        id=str(row["run_id"]),
        folder=printable(row["folder"]),
        state=row["state"],
        test=row["test"],
        title=title if live is None or row["test"] != ALL else f"{title}: {live.title}",
        drive=printable(f"{row['model']}, serial {row['serial']}"),
        drive_id=printable(row["serial"]),
        host=row["host"],
        started=live.started if live else _time(row["started"]),
        updated=live.updated if live else _time(row["ended"] or row["started"] or row["submitted"]),
        detail=reason_of(row),
        verdict=printable(row["verdict"]),
        missed_limits=row["exit_code"] == LimitsMissed.exit_code,
        virtual=live.virtual if live else False,
        stopping=row["state"] == "running" and bool(row["stop"]),
        live=live.state if live else None,
        deviations_known=live is not None,
        deviations=deviation_views(live.deviations) if live else (),
        warnings=warning_views(live.warnings) if live else (),
    )


def _recency(run: RunView) -> tuple[bool, bool, str]:
    """Return a key by which the run in progress is the last one of its drive, and a run that did not start the first.

    So a run that waits does not hide that the one before it is lost, or missed its limits.
    """
    return run.state == "running", run.state not in ("queued", "cancelled"), run.updated


def _drive_view(row: Mapping[str, Any], runs: Sequence[RunView], live: Mapping[str, LiveValues]) -> DriveView:
    """Return the view of a drive; the first of its ``runs`` is the one in progress, else the last one."""
    facts, latest = parse_facts(row["facts"]), runs[0].id if runs else ""
    values = live.get(latest)
    return DriveView(
        id=printable(row["serial"]),
        model=printable(row["model"]),
        capacity_bytes=facts.capacity_bytes if facts else 0,
        kind="simulated" if row["model"].startswith(SIMULATED) else "drive",
        firmware=facts.firmware if facts else "",
        bus=facts.bus if facts else "",
        state=row["state"],
        host=row["claimed_by_host"] or "",
        health=row["health"],
        held=printable(row["held"]),
        celsius=values.state.celsius if values else None,
        warning_celsius=values.warning_celsius if values else None,
        run=latest,
        runs=len(runs),
    )


def _queue(rows: Sequence[Mapping[str, Any]]) -> list[QueueEntry]:
    places: dict[str, int] = {}
    entries = []
    for row in rows:
        places[row["serial"]] = places.get(row["serial"], 0) + 1
        entries.append(
            QueueEntry(
                run=str(row["run_id"]),
                drive_id=printable(row["serial"]),
                model=printable(row["model"]),
                host=row["host"],
                test=row["test"],
                title=_title(row["test"], row["pts"]),
                state=row["state"],
                position=places[row["serial"]],
                priority=row["priority"],
                waits_for=printable(row["waits_for"]),
                submitted=_time(row["submitted"]),
                submitter=printable(row["submitter"]),
            )
        )
    return entries


def _host_view(row: Mapping[str, Any]) -> HostView:
    return HostView(
        name=row["name"],
        state=row["state"],
        drives=row["drives"],
        version=printable(row["version"]),
        seconds_ago=row["seconds_ago"],
    )


def _time(value: datetime | None) -> str:
    return "" if value is None else value.astimezone().isoformat(timespec="seconds")
