"""The runs in a folder of this host, as the pages and the API show them."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from ..api.comparison import compare
from ..api.job import start
from ..api.running import plan
from ..batch.folder import NAME as BATCH_NAME
from ..errors import NotResumable, NotRunning, RecordError, UnknownRun, UsageError
from ..files import open_regular, shell_quoted
from ..lab.observation.telemetry import warning_celsius
from ..model.dut import Dut
from ..model.run_options import SIMULATED, RunOptions
from ..record.ends import read_ends
from ..record.folder import RunFolder, default_name, unreadable
from ..record.journal_reader import end_detail
from ..record.replay import assess, inspect_run, read_journal_state
from ..record.result_xml import stored_missed_limits, stored_verdict
from ..record.suite import is_run
from ..results.limit_checks import judgements
from ..results.result import RunFacts, RunWarning, TestResult
from ..results.warnings import run_warnings
from ..runner.live import LiveRun, LiveState
from ..runner.options import ResumeOptions
from ..spec import Deviation
from ..text import printable
from ..trusted_paths import folder_without_symlinks
from ..units import counted
from .compared import comparison_view
from .model import (
    ComparisonView,
    DeviationView,
    DriveView,
    FileKind,
    FileView,
    LimitView,
    MetricView,
    PlanView,
    Request,
    ResultQuery,
    ResultView,
    RunDetail,
    RunState,
    RunView,
    Snapshot,
    SpreadView,
    TrendView,
    WarningView,
)
from .source import UNNAMED

#: Path components that may appear unchanged in a run id.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
#: How often the folder is searched for new runs.
_SEARCH_SECONDS = 2.0
#: Folders below this depth are not searched: a batch has suites, which have runs.
_DEPTH = 3
_TARGET_HINT = "Name a simulated drive, such as sim:enterprise-nvme, or a file in the folder, without its path."
_NO_LAB_HINT = "Only a lab can hold (reserve) drives: snia-pts lab --help."
#: The number of the last lines of a log that are shown.
LOG_LINES = 40
_LOG_BYTES = 64 * 1024
_REPORT_SUFFIXES = (".pdf", ".html", ".rst", ".xlsx", ".csv", ".json", ".png", ".svg")


class FolderSource:
    """A folder of run folders, and optionally a store of results.

    It reads both, and starts, stops and resumes runs in the folder.  Suites and batches in the folder are searched for
    runs, too.  Finished runs are read once.  ``web/source.py`` documents the methods.
    """

    has_lab = False

    def __init__(self, path: Path, store: str = "") -> None:
        """``store`` is the file, or the URL, of a store of results; empty for none."""
        self._path, self._store = path.resolve(), store
        self._lock = threading.Lock()
        self._runs: dict[str, _FolderRun] = {}
        self._searched = 0.0

    @property
    def name(self) -> str:
        """See ``web/source.py``."""
        return str(self._path)

    @property
    def has_results(self) -> bool:
        """See ``web/source.py``."""
        return bool(self._store)

    def snapshot(self) -> Snapshot:
        """See ``web/source.py``."""
        with self._lock:
            self._search()
            views = [run.view() for run in self._runs.values()]
        views.sort(key=lambda view: (view.state in ("running", "starting"), view.started, view.id), reverse=True)
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        return Snapshot(time=now, runs=tuple(views), drives=tuple(self._drives(views)), free_bytes=self.free_bytes)

    @property
    def free_bytes(self) -> int | None:
        """The free space of the folder's file system; None if it cannot be read."""
        try:
            return shutil.disk_usage(self._path).free
        except OSError:
            return None

    def run(self, run_id: str) -> RunDetail:
        """See ``web/source.py``."""
        return self._require_run(run_id).detail()

    def open_file(self, run_id: str, name: str) -> BinaryIO:
        """See ``web/source.py``."""
        return self._require_run(run_id).open_file(name)

    def results(self, query: ResultQuery) -> Sequence[ResultView]:
        """See ``web/source.py``."""
        if not self._store:
            return ()
        from .results import stored_results  # needs SQLAlchemy

        with self._lock:
            self._search()
            runs = {run.shown_path: run_id for run_id, run in self._runs.items()}
        return [replace(result, run=runs.get(result.folder, "")) for result in stored_results(self._store, query)]

    def metrics(self) -> Sequence[MetricView]:
        """See ``web/source.py``."""
        if not self._store:
            return ()
        from .results import stored_metrics  # needs SQLAlchemy

        return stored_metrics(self._store)

    def trend(self, query: ResultQuery, *, metric: str, at: str, by: str) -> TrendView:
        """See ``web/source.py``."""
        store = self._require_store()
        from .results import stored_trend  # needs SQLAlchemy

        return stored_trend(store, query, metric=metric, at=at, by=by)

    def spread(self, query: ResultQuery, *, metric: str) -> Sequence[SpreadView]:
        """See ``web/source.py``."""
        store = self._require_store()
        from .results import stored_spread  # needs SQLAlchemy

        return stored_spread(store, query, metric=metric)

    def comparison(self, run_ids: Sequence[str]) -> ComparisonView:
        """See ``web/source.py``."""
        paths = [self._require_run(run_id).folder.path for run_id in run_ids]
        return comparison_view(run_ids, compare(paths))

    def plan(self, request: Request) -> PlanView:
        """See ``web/source.py``."""
        options = self._options(request)
        estimate = plan(options)
        shortest, longest = estimate.plan.shortest, estimate.plan.longest
        return PlanView(
            title=printable(estimate.spec.title),
            drive=printable(estimate.dut.summary),
            least_seconds=shortest.seconds,
            most_seconds=longest.seconds,
            least_written_bytes=shortest.written_bytes,
            most_written_bytes=longest.written_bytes,
            open_ended=longest.open_ended > 0,
            virtual=estimate.dut.simulated,
            command=printable(shlex.join(options.command())),
            deviations=deviation_views(estimate.deviations),
            warnings=warning_views(estimate.warnings),
        )

    def submit(self, request: Request) -> str:
        """See ``web/source.py``; starts the run in a separate process that continues after this one exits."""
        options = self._options(request)
        subject = request.target.removeprefix(SIMULATED)
        name = default_name(options.test, subject, datetime.now().astimezone().isoformat())
        path = self._path / name
        start(replace(options, run_folder=path))
        with self._lock:
            self._searched = -math.inf  # so that the next request finds the run
        return _run_id(path.relative_to(self._path))

    def _options(self, request: Request) -> RunOptions:
        """Return the options of a run; raises UsageError unless its target is simulated, or a file in the folder."""
        target = request.target
        if not target.startswith(SIMULATED):
            if not _PLAIN.fullmatch(target):
                detail = f"{printable(target)[:80]!r} is neither a simulated drive nor the name of a file."
                raise UsageError(detail=detail, hint=_TARGET_HINT)
            target = str(self._path / target)
        elif not _PLAIN.fullmatch(target.removeprefix(SIMULATED)):
            # sim:PATH could name any file on this host, so only plain names are allowed.
            raise UsageError(detail=f"{printable(target)[:80]!r} is not a preset.", hint=_TARGET_HINT)
        return RunOptions(
            test=request.test,
            target=target,
            test_class=request.test_class,
            overrides=request.overrides,
            size_bytes=request.size_bytes,
        )

    def stop(self, run_id: str, *, at_once: bool = False, by: str = "") -> str:
        """See ``web/source.py``."""
        if at_once:
            hint = "Request a normal stop: the run then stops after its current point or sample."
            raise UsageError(detail="A run of a folder cannot be stopped at once.", hint=hint)
        run = self._require_run(run_id)
        if run.view().state != "running":
            raise NotRunning(path=run.folder.path, reason=f"it is {run.view().state}")
        run.folder.request_stop(by or UNNAMED)
        return "it stops after its current point or sample"

    def resume(self, run_id: str, *, serial: str = "") -> str:
        """See ``web/source.py``."""
        run = self._require_run(run_id)
        view = run.view()
        if view.state != "stopped":
            raise NotResumable(path=run.folder.path, reason=f"it is {view.state}")
        if run.is_real_drive:
            command = f"snia-pts resume {shell_quoted(run.folder.path)}"
            hint = f"Resume it on its host: {command}"
            raise UsageError(detail="This page resumes runs on simulated drives and files only.", hint=hint)
        start(ResumeOptions(serial=serial or None), run.folder.path)
        return "it continues"

    def hold(self, drive_id: str, reason: str) -> str:
        """See ``web/source.py``; only a lab can hold drives."""
        del reason
        raise UsageError(detail=f"The drive {printable(drive_id)[:80]} is not in a lab.", hint=_NO_LAB_HINT)

    def release(self, drive_id: str) -> str:
        """See ``web/source.py``; only a lab can hold drives."""
        raise UsageError(detail=f"The drive {printable(drive_id)[:80]} is not in a lab.", hint=_NO_LAB_HINT)

    def _require_store(self) -> str:
        if not self._store:
            raise UsageError(detail="There is no store of results here.", hint="Start the server with --store STORE.")
        return self._store

    def _require_run(self, run_id: str) -> _FolderRun:
        with self._lock:
            self._search()
            run = self._runs.get(run_id)
        if run is None:
            raise UnknownRun(path=f"run {printable(run_id)[:80]}", reason=f"it is not in {self._path}")
        return run

    def _search(self) -> None:
        """Search the folder for runs, unless that was done a moment ago."""
        now = time.monotonic()
        if self._runs and now - self._searched < _SEARCH_SECONDS:
            return
        paths = {_run_id(path.relative_to(self._path)): path for path in _run_paths(self._path, _DEPTH)}
        self._runs = {run_id: self._runs.get(run_id) or _FolderRun(run_id, path) for run_id, path in paths.items()}
        self._searched = time.monotonic()

    def _drives(self, views: Sequence[RunView]) -> Iterator[DriveView]:
        """Yield the drives of the runs; drives under test come first."""
        by_drive: dict[str, list[RunView]] = {}
        for view in views:
            if view.drive_id:
                by_drive.setdefault(view.drive_id, []).append(view)
        for drive_id, of_drive in by_drive.items():
            latest, dut = of_drive[0], self._runs[of_drive[0].id].dut
            if dut is not None:
                is_tested = latest.in_progress
                yield DriveView(
                    id=drive_id,
                    model=printable(dut.model),
                    capacity_bytes=dut.capacity_bytes,
                    kind=dut.kind,
                    firmware=printable(dut.firmware),
                    bus=printable(dut.bus),
                    state="running" if is_tested else "idle",
                    celsius=latest.live.celsius if latest.live else None,
                    warning_celsius=warning_celsius(dut.path) if is_tested and dut.is_device else None,
                    run=latest.id,
                    runs=len(of_drive),
                )


def _run_id(relative: Path) -> str:
    """Return the id of a run: the parts of its path in the folder, or a digest if a part is not plain."""
    if not relative.parts:
        return "run"
    if all(map(_PLAIN.fullmatch, relative.parts)):
        return ":".join(relative.parts)
    return f"sha256-{sha256(os.fsencode(relative)).hexdigest()[:16]}"


def _run_paths(path: Path, depth: int) -> Iterator[Path]:
    """Yield ``path`` if it is a run folder, else the run folders in it (suites and batches are searched).

    Symlinks in the folder are not followed.  A folder that cannot be listed is treated as empty.
    """
    if RunFolder(path=path).is_unstarted or (path / "journal.jsonl").is_file():  # in this order: it may just start
        yield path
        return
    try:
        children = [Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for child in sorted(children):
        if is_run(child, unstarted=True) or (child / BATCH_NAME).is_file():
            yield from _run_paths(child, depth - 1) if depth else ()


def require_folder(path: Path) -> None:
    """Raise UsageError if a folder of runs does not exist; it may be empty."""
    if not path.is_dir():
        detail = f"{printable(str(path))} {'is not a folder' if path.exists() else 'does not exist'}."
        raise UsageError(detail=detail, hint="Name the folder of the runs; before the first run, make an empty one.")


class _FolderRun:
    """A run folder: its current view, and its details."""

    def __init__(self, run_id: str, path: Path) -> None:
        self._id, self.folder = run_id, RunFolder(path=path)
        self._lock = threading.Lock()
        self._live: LiveRun | None = None
        self._cached_view: tuple[tuple[int, int], RunView] | None = None
        self._detail: tuple[tuple[int, int], RunDetail] | None = None
        self.dut: Dut | None = None

    def view(self) -> RunView:
        """Return the run as it is now."""
        try:
            with self._lock:
                return self._view()
        except RecordError as error:
            return self._unreadable(error)
        except OSError as error:
            return self._unreadable(unreadable(self.folder.path, error))

    def _unreadable(self, error: RecordError) -> RunView:
        detail = printable(f"{error} {error.full_hint}".strip())
        return RunView(id=self._id, folder=self.shown_path, state="unreadable", detail=detail, deviations_known=False)

    @property
    def shown_path(self) -> str:
        """The path of the folder, as it can be printed."""
        return printable(str(self.folder.path))

    def _view(self) -> RunView:
        folder = self.folder
        if not folder.has_started:
            starting = folder.is_running
            detail = (
                "it waits for a confirmation, or prepares the drive" if starting else "it ended before its first step"
            )
            return RunView(
                id=self._id,
                folder=self.shown_path,
                state="starting" if starting else "not started",
                detail=detail,
                deviations_known=False,
            )
        state = read_journal_state(folder)
        if self._cached_view is not None and self._cached_view[0] == state:
            return self._cached_view[1]
        if folder.is_running:
            self._live = self._live or LiveRun(folder)
            self._live.read()
            if (facts := self._live.facts) is not None:
                updated = datetime.fromtimestamp(state[1] / 1e9).astimezone()
                return self._build_view(facts, "running", updated=updated, live=self._live.state)
        view = self._ended_view()
        self._cached_view, self._live = (state, view), None
        return view

    def _ended_view(self) -> RunView:
        """Return the view of an ended run, from the first and last entries of its journal, and result.xml's verdict."""
        ends = read_ends(self.folder.journal)
        finished = ends.end is not None and ends.end.ending == "finished"
        if finished and ends.end is not None:
            stored = self.folder.result, ends.facts.run_id, ends.end.at
            verdict, missed = stored_verdict(*stored), bool(ends.facts.limits) and stored_missed_limits(*stored)
            detail = "" if verdict else "no up-to-date result.xml"
        else:
            verdict, missed, detail = "", False, end_detail(ends.end, ends.torn_bytes)
        live = None
        if self._live is not None:
            self._live.read()
            live = self._live.state
        state: RunState = "finished" if finished else "stopped"
        view = self._build_view(ends.facts, state, updated=ends.written, live=live, verdict=verdict, detail=detail)
        return replace(view, missed_limits=missed)

    def _build_view(
        self,
        facts: RunFacts,
        state: RunState,
        *,
        updated: datetime,
        live: LiveState | None,
        verdict: str = "",
        detail: str = "",
    ) -> RunView:
        self.dut = facts.dut
        return RunView(
            id=self._id,
            folder=self.shown_path,
            state=state,
            test=facts.spec.test,
            title=printable(facts.spec.title),
            drive=printable(facts.dut.summary),
            drive_id=printable(facts.dut.identity),
            started=facts.started,
            updated=updated.isoformat(timespec="milliseconds"),
            detail=printable(detail),
            verdict=printable(verdict),
            virtual=facts.dut.simulated,
            stopping=state == "running" and self.folder.stop_requested,
            live=live,
            deviations=deviation_views(facts.deviations),
            warnings=warning_views(facts.warnings),
        )

    def detail(self) -> RunDetail:
        """Return the run with its series, from its whole journal."""
        view, folder = self.view(), self.folder
        if not view.test:  # it has no readable journal
            return RunDetail(run=view, series=(), log=self._log(), files=tuple(self._files()))
        state = read_journal_state(folder)
        if self._detail is not None and self._detail[0] == state:
            return replace(self._detail[1], files=tuple(self._files()))
        live, result = LiveRun(folder), assess(folder)
        live.read()
        ended = view.state != "running"
        detail = RunDetail(
            run=replace(
                view,
                live=live.state,
                verdict=printable(result.verdict) if ended else "",
                steady=result.steady if ended else None,
                deviations=deviation_views(result.deviations),
                warnings=warning_views(run_warnings(result)),
            ),
            series=live.series,
            log=self._log(),
            files=tuple(self._files()),
            limits=_limits(result),
            stop_detail="" if ended else "it stops after its current point or sample, which is kept",
            resume_detail=self._resume_detail(view),
            serial_required=view.state == "stopped" and self.is_real_drive,
        )
        if ended:  # the process of a run ends after the last entry of its journal
            self._detail = state, detail
        return detail

    @property
    def is_real_drive(self) -> bool:
        """Whether its target is a real drive, whose data a run destroys."""
        return self.dut is not None and self.dut.is_device

    def _resume_detail(self, view: RunView) -> str:
        """Return the effect of a resume; empty if the run cannot be resumed."""
        if view.state != "stopped":
            return ""
        plan = inspect_run(self.folder, "rule")
        if plan.facts.imported is not None:
            return ""
        discarded = (
            f"; {counted(plan.discarded_outcomes, 'outcome')} would be discarded" if plan.discarded_outcomes else ""
        )
        if not plan.next_step:
            return "everything was measured; only its end is missing"
        return printable(f"it would continue with {plan.next_step}{discarded}")

    def _log(self) -> tuple[str, ...]:
        """Return the last lines of the log."""
        try:
            with open_regular(self.folder.log) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LOG_BYTES))
                lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            return ()
        return tuple(map(printable, lines[-LOG_LINES:]))

    def _files(self) -> Iterator[FileView]:
        """Yield the regular files of the folder and of its subfolders, except evidence, in order of their names."""
        root = self.folder.path
        folders = [root]
        try:
            folders += [
                Path(entry.path)
                for entry in os.scandir(root)
                if entry.is_dir(follow_symlinks=False) and entry.name != self.folder.evidence.name
            ]
        except OSError:
            return
        for folder in sorted(folders):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                if entry.is_file(follow_symlinks=False) and entry.name.isprintable():
                    name = str(Path(entry.path).relative_to(root))
                    yield FileView(name=name, size_bytes=entry.stat(follow_symlinks=False).st_size, kind=_kind(name))

    def open_file(self, name: str) -> BinaryIO:
        """Open a file of the folder for reading; symlinks are not followed.  Raises UnknownRun."""
        if name not in {file.name for file in self._files()}:
            raise UnknownRun(path=f"file {printable(name)[:80]}", reason="the run folder has no such file")
        path = self.folder.path / name
        try:
            with folder_without_symlinks(path) as folder:
                descriptor = os.open(
                    path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
                )
        except OSError as error:
            raise unreadable(path, error) from None
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise UnknownRun(path=f"file {printable(name)[:80]}", reason="it is not a regular file")
        return file


def _kind(name: str) -> FileKind:
    kinds: dict[str, FileKind] = {"journal.jsonl": "journal", "result.xml": "result", "log.txt": "log"}
    return kinds.get(name, "report" if name.endswith(_REPORT_SUFFIXES) else "other")


def deviation_views(deviations: Sequence[Deviation]) -> tuple[DeviationView, ...]:
    """Return the views of deviations."""
    return tuple(
        DeviationView(
            what=printable(deviation.what),
            actual=printable(deviation.actual),
            standard=printable(deviation.standard),
            clause=printable(deviation.clause),
        )
        for deviation in deviations
    )


def warning_views(warnings: Sequence[RunWarning]) -> tuple[WarningView, ...]:
    """Return the views of warnings."""
    return tuple(WarningView(what=printable(item.what), detail=printable(item.detail)) for item in warnings)


def _limits(result: TestResult) -> tuple[LimitView, ...]:
    return tuple(
        LimitView(
            metric=judged.limit.metric,
            at=printable(judged.limit.at),
            unit=judged.limit.unit,
            minimum=judged.limit.minimum,
            maximum=judged.limit.maximum,
            value=judged.value,
            met=judged.met,
            reason=printable(judged.shown_reason),
        )
        for judged in judgements(result)
    )
