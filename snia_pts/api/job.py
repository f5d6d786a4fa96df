"""Runs a test in a process of its own, which survives this one."""

from __future__ import annotations

import os
import signal
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..errors import HostFailed, SniaPtsError, UsageError
from ..lab.process.detached import DetachedProcess, order_file, python_program
from ..model.run_options import RunOptions
from ..record.folder import RunFolder
from ..runner.events import Event
from ..runner.following import follow as follow_folder
from ..runner.options import ResumeOptions
from .job_process import FINISHED, FOLDER_DESCRIPTOR, OUTCOME_DESCRIPTOR, error_from_json
from .run import Run, load

#: The most of an outcome or of the output that is read.
_MAX_BYTES = 1 << 20


class Job:
    """A test that runs in a process of its own; the process continues if this one ends.  ``start`` returns it.

    ``path`` is the run folder, ``pid`` the process.
    """

    def __init__(self, path: Path, process: _JobProcess) -> None:
        self.path, self.pid, self._process = path, process.pid, process

    def __repr__(self) -> str:
        return f"Job(path={str(self.path)!r}, pid={self.pid}, running={self.running})"

    @property
    def running(self) -> bool:
        """Whether the process still runs; after its last event it writes the report."""
        return self._process.wait(0) is None

    def events(self) -> Iterator[Event]:
        """Yield the events of the run from its first step on, as its journal gets them; end when the run has ended.

        Each call starts at the first step.  See ``follow``.  Raises RecordError if the journal cannot be read.
        """
        yield from follow_folder(RunFolder(path=self.path), lambda: self.running)

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the run to stop after its current point or sample; does not wait for that.

        ``at_once`` ends the program of the current step, as Ctrl-C does; that point is measured again by ``resume``.
        A job that has ended is left as it is.  Raises RunFolderError.
        """
        if at_once:
            self._process.send(signal.SIGTERM)
        elif self.running:
            RunFolder(path=self.path).request_stop()

    def wait(self, timeout_seconds: float | None = None) -> Run:
        """Wait until the process has ended and return the stored run.

        Raises the error that ended the run, as ``run`` does; HostFailed if the process was killed; and TimeoutError.
        """
        if self._process.wait(timeout_seconds) is None:
            raise TimeoutError(f"{self.path}: the job still runs after {timeout_seconds:g} s")
        if error := self._process.error():
            raise error
        return load(self.path)


def start(options: RunOptions | ResumeOptions, path: str | os.PathLike[str] | None = None) -> Job:
    """Start a test in a process of its own, and return when its target is claimed and confirmed.

    ``ResumeOptions`` resume the stopped run in the folder ``path``.  Nothing of the options is stored that a run does
    not store; a drive must be confirmed by the ``serial`` in them.  Raises the error with which the run is refused, as
    ``run`` and ``resume`` do.
    """
    if isinstance(options, ResumeOptions) is (path is None):
        detail = "start: expected RunOptions, or ResumeOptions and the path of a stopped run."
        raise UsageError(detail=detail, hint="The path of a new run folder is RunOptions.run_folder.")
    order = {
        "options": TypeAdapter(type(options)).dump_python(options, mode="json"),
        "path": None if path is None else os.fspath(path),
    }
    process, folder = _start_process(order)
    if folder is None:
        raise process.error() or HostFailed(
            step="start of the job", what=sys.executable, reason="it ended without a run and without an error"
        )
    return Job(folder, process)


def follow(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Yield the events of the run in the folder ``path`` from its first step on, also of a run of another process.

    They are StepStarted, OutcomeRecorded, RoundEvaluated, RunResumed, and TestFinished if the test finished.  Ends when
    no process writes the journal; at once, after the last event, for a stored run.  After RunResumed the run continues
    after the last valid step; steps that were discarded had their events before.  Raises RecordError.
    """
    folder = RunFolder(path=Path(path).resolve())
    if not folder.is_starting:
        folder = RunFolder.existing(Path(path))
    return follow_folder(folder, lambda: folder.is_running)


class _JobProcess(DetachedProcess):
    """The process of a job, with the anonymous files to which it writes its outcome and its output."""

    def __init__(self, order: int, folder: int) -> None:
        """Start the process: it reads ``order``, and writes the path of its run folder to ``folder``."""
        self._outcome, self._output = os.memfd_create("outcome"), os.memfd_create("output")
        for descriptor in (self._outcome, self._output):
            weakref.finalize(self, os.close, descriptor)
        descriptors = {
            0: order,
            1: self._output,
            2: self._output,
            FOLDER_DESCRIPTOR: folder,
            OUTCOME_DESCRIPTOR: self._outcome,
        }
        super().__init__(python_program("snia_pts.api.job_process:main"), descriptors)

    def error(self) -> SniaPtsError | None:
        """Wait for the end of the process, and return the error that ended its run; None if it finished."""
        exit_code = self.wait() or 0
        if outcome := _content(self._outcome):
            return None if outcome == FINISHED else error_from_json(outcome)
        lines = _content(self._output).decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else "it left no reason"
        if exit_code < 0:
            reason = f"it was killed by {signal.Signals(-exit_code).name}"
        return HostFailed(step="process of the run", what=f"process {self.pid}", reason=reason)


def _start_process(order: Mapping[str, Any]) -> tuple[_JobProcess, Path | None]:
    """Start a process with an order; return it, and its run folder once its target is confirmed, None if it ended."""
    with ExitStack() as opened:
        reader, writer = os.pipe()
        folder = opened.enter_context(os.fdopen(reader, "rb"))
        with os.fdopen(writer, "wb"), order_file(order) as file:
            process = _JobProcess(file, writer)
        try:
            path = folder.read()
        except BaseException:
            process.send(signal.SIGTERM)  # nobody would know where it runs
            raise
    return process, Path(os.fsdecode(path)) if path else None


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, _MAX_BYTES, 0)
