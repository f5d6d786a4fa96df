"""Shows a run on the terminal, and asks its operator."""

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
    FolderMade,
    Notice,
    ProgramRunning,
    ResumePlanned,
    RunStarted,
    TestFinished,
    TestStarted,
)
from ...units import capacity, counted, duration
from ..mail.notification import Notification
from .progress import Progress, choose_mode, standard_stream


class Terminal:
    """Follows a run: progress to standard error, and a question where one is needed.

    ``progress`` is that of the option: auto, line, log or none.  ``letter`` is the mail on the run.
    """

    def __init__(self, progress: str, letter: Notification | None = None) -> None:
        self._stream = standard_stream()
        self._silent = progress == "none"
        self._mode = choose_mode(progress, self._stream)
        self._letter = letter
        self._progress: Progress | None = None
        self._planned: ResumePlanned | None = None

    def on_event(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Notice():
                self._clear()
                say(event.text)
            case FolderMade() if self._letter:
                self._letter.describe(event)
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
                self._calibrating(event)
            case TestFinished():
                self.close()
                if self._letter:
                    self._letter.finish(event.result)
            case _ if self._progress:
                self._follow(self._progress, event)

    def confirm(self, request: ConfirmDestruction | ConfirmRestart) -> str:
        """Ask the operator; raises NotConfirmed where standard input is not a terminal."""
        self._clear()
        if isinstance(request, ConfirmRestart):
            return self._ask_to_restart(request)
        for line in destruction_lines(request):
            print(line, file=sys.stderr)
        if not sys.stdin.isatty():
            raise NotConfirmed(
                path=request.path, reason="there is no terminal to ask at", confirmation=request.expected
            )
        return _answer(f"{_question(request)}, {request.expected}, to go on: ")

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

    def _calibrating(self, event: CalibrationStarted) -> None:
        if not self._silent:
            self._stream.write(f"[0 s] {event.text}\n")

    def _follow(self, progress: Progress, event: Event) -> None:
        if isinstance(event, ProgramRunning):
            progress.tick(event.seconds, event.written_bytes)
        else:
            progress.event(event)

    def _show_plan(self) -> None:
        if self._planned:
            print("\n".join(outlook_lines(self._planned.folder, self._planned.outlook)), file=sys.stderr)

    def _ask_to_restart(self, request: ConfirmRestart) -> str:
        if self._silent:
            self._show_plan()
        times = dict.fromkeys(duration(each.seconds) for each in (request.plan.shortest, request.plan.longest))
        kept = counted(request.spared, "outcome")
        spared = f" --continue keeps {kept} instead, without a new purge." if request.spared else ""
        again = f"The test begins again and writes {request.path} again; all of it takes {' to '.join(times)}."
        print(f"{again}{spared}", file=sys.stderr)
        if not sys.stdin.isatty():
            reason = "the test would begin again, and there is no terminal to ask at"
            raise NotConfirmed(path=request.path, reason=reason, hint=request.hint)
        return _answer("Type yes to begin again: ")


def say(line: str) -> None:
    """Print a notice for the operator."""
    print(f"snia-pts: {line}", file=sys.stderr)


def destruction_lines(request: ConfirmDestruction) -> Iterator[str]:
    """Say what will be destroyed, before the answer is typed."""
    if request.array is None:
        yield "Everything on this target will be destroyed:"
    else:
        label = f"A {request.array.label} is made of these drives as {request.path}"
        yield f"{label}; everything on them will be destroyed:"
    for drive in request.drives:
        serial = f", serial {drive.serial}" if drive.serial else ""
        yield f"  {drive.path}  {drive.model or 'unknown model'}{serial}, {capacity(drive.capacity_bytes)}"
        found = ", ".join(drive.on_it) or "no file system or partition table is recognised"
        yield f"{'  ' if request.array is None else '    '}on it: {found}"


def outlook_lines(folder: RunFolder, outlook: ResumePlan) -> Iterator[str]:
    """Say where a stopped run stands, and what resuming it would do."""
    yield f"{outlook.facts.spec.caption} of {outlook.facts.dut.summary} in {folder.path}"
    virtual = " (virtual)" if outlook.facts.dut.simulated else ""
    stopped = outlook.stopped.isoformat(" ", "seconds") + virtual
    yield f"  stopped {stopped} at {outlook.where} ({outlook.reason})"
    if not outlook.next_step:
        yield "  everything was measured; only its end is missing"
        return
    lost = f"; {counted(outlook.lost, 'outcome')} before the stop set aside" if outlook.lost else ""
    yield f"  goes on with {outlook.next_step}{lost}"


def _question(request: ConfirmDestruction) -> str:
    if request.array is not None:
        return "Type their serial numbers or names"
    return f"Type its {'serial number' if request.drives[0].serial else 'name'}"


def _answer(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()
