"""Shows a run on the terminal and asks the operator."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ...errors import NotConfirmed
from ...record.folder import RunFolder
from ...record.replay import ResumePlan
from ...runner.confirmation import ConfirmDestruction, ConfirmRestart
from ...runner.events import (
    CalibrationStarted,
    Event,
    FolderCreated,
    Notice,
    ProgramRunning,
    ResumePlanned,
    RunStarted,
    SuiteFinished,
    TestFinished,
    TestStarted,
)
from ...units import capacity, counted, duration
from ..notifications.content import Notification
from .lines import print_lines, say
from .progress import Progress, choose_mode, standard_stream


class Terminal:
    """Writes the progress of a run to standard error, and asks for confirmations.

    ``progress`` is the value of --progress: auto, line, log or none.  ``notification`` is the mail about the run.
    """

    def __init__(self, progress: str, notification: Notification | None = None) -> None:
        self._stream = standard_stream()
        self._silent = progress == "none"
        self._mode = choose_mode(progress, self._stream)
        self._notification = notification
        self._progress: Progress | None = None
        self._planned: ResumePlanned | None = None

    def on_event(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Notice():
                self._clear()
                say(event.text)
            case FolderCreated() if self._notification:
                self._notification.describe(event)
            case ResumePlanned():
                self._planned = event
                if not self._silent:
                    self._show_plan()
            case TestStarted() if not self._silent:
                self._clear()
                print(f"test {event.position} of {event.total}: {event.title}", file=sys.stderr)
            case RunStarted():
                self._begin(event)
            case CalibrationStarted():
                self._show_calibration(event)
            case SuiteFinished():
                self.close()
            case TestFinished():
                self.close()
                if self._notification:
                    self._notification.finish(event.result)
            case _ if self._progress:
                self._follow(self._progress, event)

    def confirm(self, request: ConfirmDestruction | ConfirmRestart) -> str:
        """Ask the operator; raises NotConfirmed where standard input is not a terminal."""
        self._clear()
        if isinstance(request, ConfirmRestart):
            return self._ask_to_restart(request)
        print_lines(destruction_lines(request), sys.stderr)
        if not sys.stdin.isatty():
            raise NotConfirmed(path=request.path, reason="stdin is not a terminal", confirmation=request.expected)
        return answer(f"{_question(request)}, {request.expected}, to continue: ")

    def close(self) -> None:
        """Leave the terminal on a clean line."""
        self._clear()
        self._progress = None

    def _clear(self) -> None:
        if self._progress:
            self._progress.close()

    def _begin(self, event: RunStarted) -> None:
        self._progress = Progress(
            event.spec, event.plan, self._mode, self._stream, resumed=event.resumed, simulated=event.simulated
        )
        self._progress.begin()

    def _show_calibration(self, event: CalibrationStarted) -> None:
        if not self._silent:
            self._stream.write(f"[0 s] {event.text}\n")

    def _follow(self, progress: Progress, event: Event) -> None:
        if isinstance(event, ProgramRunning):
            progress.tick(event.seconds, event.written_bytes)
        else:
            progress.on_event(event)

    def _show_plan(self) -> None:
        if self._planned:
            print_lines(resume_lines(self._planned.folder, self._planned.resume_plan), sys.stderr)

    def _ask_to_restart(self, request: ConfirmRestart) -> str:
        if self._silent:
            self._show_plan()
        times = dict.fromkeys(duration(estimate.seconds) for estimate in (request.plan.shortest, request.plan.longest))
        count = counted(request.recoverable_outcomes, "outcome")
        option = f" --continue keeps {count} instead, without a new purge." if request.recoverable_outcomes else ""
        restart = f"The test starts again, overwrites {request.path} and takes {' to '.join(times)}."
        print(f"{restart}{option}", file=sys.stderr)
        if not sys.stdin.isatty():
            reason = "the test would start again, and stdin is not a terminal"
            raise NotConfirmed(path=request.path, reason=reason, hint=request.hint)
        return answer("Type yes to start again: ")


def destruction_lines(request: ConfirmDestruction) -> Iterator[str]:
    """Yield lines that list what will be destroyed, before the operator confirms."""
    if request.array is None:
        several = len(request.drives) > 1
        yield f"Everything on {f'these {len(request.drives)} drives' if several else 'this target'} will be destroyed:"
    else:
        label = f"A {request.array.label} is made of these drives as {request.path}"
        yield f"{label}; everything on them will be destroyed:"
    for drive in request.drives:
        serial = f", serial {drive.serial}" if drive.serial else ""
        yield f"  {drive.path}  {drive.model or 'unknown model'}{serial}, {capacity(drive.capacity_bytes)}"
        contents = ", ".join(drive.signatures) or "no file system or partition table is recognised"
        yield f"{'  ' if request.array is None else '    '}contains: {contents}"


def resume_lines(folder: RunFolder, plan: ResumePlan) -> Iterator[str]:
    """Yield lines about the state of a stopped run, and about what resuming it would do."""
    yield f"{plan.facts.spec.caption} of {plan.facts.dut.summary} in {folder.path}"
    virtual = " (virtual)" if plan.facts.dut.simulated else ""
    stopped = plan.stopped.isoformat(" ", "seconds") + virtual
    yield f"  stopped {stopped} at {plan.position} ({plan.reason})"
    if not plan.next_step:
        yield "  everything was measured; only the end of the run is not recorded"
        return
    discarded = (
        f"; {counted(plan.discarded_outcomes, 'outcome')} before the stop discarded" if plan.discarded_outcomes else ""
    )
    yield f"  continues with {plan.next_step}{discarded}"


def _question(request: ConfirmDestruction) -> str:
    if request.array is not None or len(request.drives) > 1:
        return "Type their serial numbers or names"
    return f"Type its {'serial number' if request.drives[0].serial else 'name'}"


def answer(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()
