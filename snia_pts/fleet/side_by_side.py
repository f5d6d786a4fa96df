"""What a run shares its host with: the other runs, its share of the CPUs, and how long it waited; for its result."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

from ..errors import RecordError, RunFolderError
from ..lab.device.identity import block_directory
from ..lab.host.cpu_shares import cpu_list, cpu_shares
from ..model.test_platform import HostSetting
from ..results.result import RunWarning
from ..units import counted, duration
from .state_folder import RunState, lock_file, make_private_folder

_LOGGER = logging.getLogger(__name__)
_ROOT = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another run on the same host, with its times; ``ended`` is None if it is in progress, or if it was killed."""

    model: str
    serial: str
    test: str
    started: datetime
    ended: datetime | None

    def __str__(self) -> str:
        end = f" to {_time(self.ended)}" if self.ended else ""
        return f"{self.model}, serial {self.serial}, {self.test}, from {_time(self.started)}{end}"


def neighbours(state_folder: Path, run_id: UUID, since: datetime) -> Iterator[Neighbour]:
    """Yield the other runs of a host that were in progress since then, in the order of their starts."""
    found = []
    for folder in (state_folder / "runs").glob("*"):
        state = RunState(path=folder)
        if folder.name == str(run_id) or not state.exists:
            continue
        try:
            request, starts, end = state.request(), state.starts(), state.exit()
            lives = state.is_locked
        except RecordError:
            continue  # the agent reports it
        if not starts or not (lives or (end.at if end else starts[-1].at) >= since):
            continue
        first = next(start for start in starts if start.claim == starts[-1].claim)
        ended = end.at if end and not lives else None
        found.append(
            Neighbour(model=request.model, serial=request.serial, test=request.test, started=first.at, ended=ended)
        )
    yield from sorted(found, key=lambda neighbour: neighbour.started)


@dataclass(slots=True, kw_only=True)
class SharedHost:
    """The host of a run that started at ``started``, as its result describes it."""

    state_folder: Path
    run_id: UUID
    started: datetime
    cpus: str = field(default="", init=False)

    def take_cpus(self, target: str, side_by_side: int) -> None:
        """Keep this process, and those that it starts, on a share of the CPUs of the target's NUMA node.

        A share belongs to one process, until that ends.  Nothing changes if all shares are taken, or there is only one.
        """
        path = Path(target)
        number = path.stat().st_rdev if path.is_block_device() else None
        block = block_directory(number, _ROOT) if number else None
        shares = cpu_shares(block, side_by_side, os.sched_getaffinity(0), _ROOT)
        if len(shares) < 2:
            return
        try:
            make_private_folder(self.state_folder / "cpus")
            for share in shares:
                name = cpu_list(share)
                if lock_file(self.state_folder / "cpus" / name) is not None:  # the kernel unlocks it at the end
                    os.sched_setaffinity(0, share)
                    self.cpus = name
                    return
        except (OSError, RunFolderError) as error:
            _LOGGER.warning("no share of the CPUs: %s", error)  # the result says that the run used all of them

    def settings(self) -> tuple[HostSetting, ...]:
        """Return what is known at the start of the run."""
        others = len(tuple(neighbours(self.state_folder, self.run_id, datetime.now().astimezone())))
        return (
            HostSetting(
                name="tests side by side",
                value=f"{counted(others, 'other test')} at the start" if others else "none at the start",
                judgement="noted" if others else "good",
                reason="drives that share a link, a controller or CPUs disturb each other",
            ),
            HostSetting(
                name="CPUs of the test",
                value=self.cpus or "all",
                judgement="good" if self.cpus or not others else "noted",
                reason="tests that share CPUs disturb each other",
            ),
            *self._queue_time(),
        )

    def end_warnings(self) -> tuple[RunWarning, ...]:
        """Return a warning that names the neighbours of the run, unless it was alone."""
        found = [str(neighbour) for neighbour in neighbours(self.state_folder, self.run_id, self.started)]
        if not found:
            return ()
        return (RunWarning(what="tests side by side", detail=f"{'; '.join(found)}"),)

    def _queue_time(self) -> Iterator[HostSetting]:
        submitted = RunState.of(self.state_folder, self.run_id).submitted
        if submitted:
            seconds = max(0.0, (self.started - submitted).total_seconds())
            reason = "the time from the request to the start"
            yield HostSetting(name="time in the queue", value=duration(seconds), judgement="good", reason=reason)


def _time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
