"""Plans, runs and resumes tests in this process."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event as StopEvent

from ..model.run_options import RunOptions
from ..runner.caller import Caller
from ..runner.confirmation import Confirm, refuse
from ..runner.events import OnEvent, ignore_event
from ..runner.options import ResumeOptions
from ..runner.resume import resume as resume_run
from ..runner.run import FinishedRun, estimate
from ..runner.run import run as run_test
from ..runner.setup import TestEstimate
from .run import Run


def plan(options: RunOptions, on_event: OnEvent | None = None) -> TestEstimate:
    """Return the estimate of a test: its ``dut``, ``spec``, ``deviations``, ``settings``, ``warnings`` and ``limits``.

    ``estimate.plan.shortest`` and ``.longest`` are the bounds of its duration, each with ``seconds`` and
    ``written_bytes``.  Writes nothing.  Raises the error that would refuse the run, except
    errors that can be found only after the target was opened for exclusive use.
    """
    return estimate(options, _caller(on_event))


def run(
    options: RunOptions,
    on_event: OnEvent | None = None,
    confirm: Confirm | None = None,
    stop: StopEvent | None = None,
) -> Run:
    """Run a test in this thread and return the stored run; also writes the report in ``options.formats``.

    ``on_event`` is called with each event, in this thread.  If the options have no ``serial``, ``confirm`` is called
    with a question; to confirm, return the text in its ``expected``.  Another thread may set ``stop``: then the run
    ends after its current point or sample.  Missed limits are no error: see the limits of the result.

    Raises:

    * UsageError, SpecError or TargetMissing for invalid options;
    * TargetBusy, TargetNotOurs, TargetUnfit or NotConfirmed if the target is refused, before anything is written;
    * PurgeFailed, DeviceFailed, HostFailed or Interrupted during the run, which ``resume`` can continue;
    * ReportError after the result is stored.

    While it writes the report, the current folder and some environment variables of this process differ.
    """
    return _stored(run_test(options, _caller(on_event, confirm, stop)))


def resume(
    path: str | os.PathLike[str],
    options: ResumeOptions | None = None,
    on_event: OnEvent | None = None,
    confirm: Confirm | None = None,
    stop: StopEvent | None = None,
) -> Run:
    """Resume the stopped run in the folder ``path`` in this thread, and return the stored run.

    The options of the run are read from its journal, except those that destroy data or start a program: ``options`` has
    these.  The other parameters are those of ``run``.  Raises NotResumable if the run is in progress, finished, or was
    on another target; RecordError if it cannot be read; and what ``run`` raises.
    """
    caller = _caller(on_event, confirm, stop)
    return _stored(resume_run(Path(path), options or ResumeOptions(), caller))


def _caller(on_event: OnEvent | None, confirm: Confirm | None = None, stop: StopEvent | None = None) -> Caller:
    return Caller(on_event=on_event or ignore_event, confirm=confirm or refuse, stop=stop)


def _stored(finished: FinishedRun) -> Run:
    return Run(path=finished.folder.path, result=finished.result)
