"""Hosts of a trial: in a folder of this machine, with simulated drives, and an agent that is a process of this one."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from uuid import UUID

from ..files import open_to_append, replace_file
from ..lab.process.detached import DetachedProcess, order_file, python_program
from .configuration import read_configuration
from .state_folder import RunState, make_private_folder
from .unit import Units

#: The model of the drives.
MODEL = "sim:enterprise-nvme"
_FUNCTION = "snia_pts.fleet.agent_commands:run_detached"
_END_SECONDS = 120.0
_POLL_SECONDS = 0.05


@dataclass
class TrialHost:
    """A host in ``folder``; its agent logs in with ``database``, the URL of its role."""

    name: str
    folder: Path
    database: str
    serials: tuple[str, ...]
    side_by_side: int = 8
    _agent: DetachedProcess | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        drives = (f'[[drive]]\nserial = "{serial}"\ntarget = "{MODEL}"\n' for serial in self.serials)
        lines = [
            "format = 1",
            f'host = "{self.name}"',
            f'database = "{self.database}"',
            f'state_folder = "{self.folder}/state"',
            f'run_folder = "{self.folder}/runs"',
            f"side_by_side = {self.side_by_side}",
            'units = "process"',
            *drives,
        ]
        make_private_folder(self.folder)
        replace_file(self.configuration, "\n".join(lines).encode())

    @property
    def configuration(self) -> Path:
        """The file of the agent's configuration."""
        return self.folder / "agent.toml"

    @property
    def log(self) -> str:
        """What the agent printed."""
        return (self.folder / "agent.log").read_text()

    @property
    def pid(self) -> int | None:
        """The number of the agent's process; None before its start."""
        return None if self._agent is None else self._agent.pid

    def start(self) -> Self:
        """Start the agent."""
        with ExitStack() as opened:
            standard_input = opened.enter_context(order_file({"configuration": str(self.configuration)}))
            log = opened.enter_context(open_to_append(self.folder / "agent.log", new=True)).fileno()
            self._agent = DetachedProcess(python_program(_FUNCTION), {0: standard_input, 1: log, 2: log})
        return self

    def end(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Send a signal to the agent, and return its exit code; None if it does not end."""
        if self._agent is None:
            return None
        self._agent.send(number)
        return self._agent.wait(_END_SECONDS)

    def run_state(self, run_id: UUID) -> RunState:
        """Return the state of a run on this host."""
        return RunState.of(self.folder / "state", run_id)

    def live_runs(self) -> Iterator[RunState]:
        """Yield the states of the runs whose processes live."""
        for folder in (self.folder / "state" / "runs").glob("*"):
            state = self.run_state(UUID(folder.name))
            if state.is_locked:
                yield state

    def starts(self, run_id: UUID) -> list[str]:
        """Return how the run was started each time: ``fresh``, ``resume`` or ``from-purge``."""
        return [start.kind for start in self.run_state(run_id).starts() if not start.began]

    def close(self) -> None:
        """Kill the agent, and the processes of all runs."""
        self.end(signal.SIGKILL)
        deadline = time.monotonic() + _END_SECONDS
        while (live := tuple(self.live_runs())) and time.monotonic() < deadline:
            units = Units(read_configuration(self.configuration))
            for state in live:
                units.terminate(state, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
