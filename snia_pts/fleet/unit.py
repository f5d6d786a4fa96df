"""Starts the process of a run, which outlives this one: by itself, or as a unit of systemd."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock

from ..errors import HostFailed
from ..files import open_to_append
from ..lab.process.detached import DetachedProcess, order_file, python_program
from ..lab.process.program import Program
from .configuration import AgentConfiguration
from .state_folder import RunState

#: The descriptors of the locks of the run and of the drive, which the process inherits.
LOCK_DESCRIPTORS = (3, 4)
_FUNCTION = "snia_pts.fleet.run_process:run_detached"
_SYSTEMCTL_SECONDS = 30
#: The states of a unit whose process lives, or is about to start or end.
_ALIVE = {"active", "activating", "deactivating", "reloading"}


class Units:
    """The processes of the runs on this host, as its configuration wants them."""

    def __init__(self, configuration: AgentConfiguration) -> None:
        self._configuration = configuration
        self._processes: list[DetachedProcess] = []
        self._changing = Lock()

    def start(self, run: RunState, run_lock: int, drive_lock: int) -> None:
        """Start the process of a run; a process of its own inherits the locks.  Raises HostFailed, ToolMissing.

        A unit of systemd takes the locks itself, so the caller must release them.
        """
        try:
            with ExitStack() as opened:
                # systemd opens the file again; a file that it made would not belong to the group of the agent
                output = opened.enter_context(open_to_append(run.output, new=True)).fileno()
                if self._configuration.units == "systemd":
                    _systemctl("start", "--no-block", _unit(run))
                    return
                order = {"configuration": str(self._configuration.path), "run_id": run.path.name}
                standard_input = opened.enter_context(order_file(order))
                locks = dict(zip(LOCK_DESCRIPTORS, (run_lock, drive_lock), strict=True))
                process = DetachedProcess(python_program(_FUNCTION), {0: standard_input, 1: output, 2: output, **locks})
        except OSError as error:
            reason = error.strerror or str(error)
            raise HostFailed(step="start of the run", what=run.path, reason=reason) from None
        with self._changing:
            self._processes.append(process)

    def is_alive(self, run: RunState) -> bool:
        """Whether the process of a run lives, or is about to start.  Raises RecordError, ToolMissing."""
        with self._changing:  # collects the children that have ended
            self._processes = [process for process in self._processes if process.wait(0) is None]
        if run.is_locked:
            return True
        if self._configuration.units != "systemd" or not run.claims:
            return False
        return _systemctl("show", "--property=ActiveState", "--value", _unit(run)) in _ALIVE

    def terminate(self, run: RunState, number: signal.Signals = signal.SIGTERM) -> bool:
        """Send a signal to the process of a run; return False if it cannot be identified yet.  Raises HostFailed."""
        if self._configuration.units == "systemd":
            _systemctl("kill", "--kill-who=main", f"--signal={number.name}", _unit(run))
            return True
        if (pid := run.pid) is None:
            return False
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            if not _has_open(pid, run.lock):  # the number may be that of another process by now
                return False
            signal.pidfd_send_signal(process, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(process)
        return True


def _has_open(pid: int, path: Path) -> bool:
    """Return whether a process has a file open."""
    with suppress(OSError):  # it has ended
        status = path.stat()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it was closed
                if os.path.samestat(descriptor.stat(), status):
                    return True
    return False


def _unit(run: RunState) -> str:
    return f"snia-pts-run@{run.path.name}.service"


def _systemctl(*words: str) -> str:
    """Run systemctl and return its standard output; raises HostFailed."""
    with Program(("systemctl", *words), evidence=None) as program:
        program.wait_for_io_end(_SYSTEMCTL_SECONDS)
    finished = program.finished
    if finished.exit_code != 0:
        what = " ".join(("systemctl", *words))
        raise HostFailed(step="start of the run", what=what, reason=finished.error_summary)
    return finished.stdout.strip()
