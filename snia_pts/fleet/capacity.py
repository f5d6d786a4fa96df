"""How many runs a host performs side by side: as its configuration says, else as many as fit its CPUs and links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt
from pydantic import TypeAdapter, ValidationError

from ..analysis.side_by_side import SideBySide
from ..errors import RecordError
from ..files import read_regular, replace_file
from ..lab.host.side_by_side import calibrated_cost_us, fitting_side_by_side
from .configuration import AgentConfiguration
from .drive_facts import present_duts
from .state_folder import RunState

#: In the state folder: what the agent decided, for the processes of the runs, and the calibration, for the next start.
_NAME = "side_by_side.json"
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """The content of the file; ``cost_us`` is the CPU time per I/O by the calibration, None without one."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}
    format: Literal[1] = 1
    cost_us: Annotated[float, Gt(0)] | None
    count: Annotated[int, Ge(1)]
    reason: str


@cache
def _adapter() -> TypeAdapter[_Decision]:
    return TypeAdapter(_Decision)


def decide_side_by_side(configuration: AgentConfiguration) -> SideBySide:
    """Return how many runs this host performs side by side, and store it; raises OSError.

    The host is calibrated once, and never while a run is in progress, which the calibration would disturb.
    """
    if configuration.side_by_side is not None:
        return SideBySide(configuration.side_by_side, f"side_by_side in {configuration.path}")
    earlier = _read(configuration.state_folder)
    cost_us = earlier.cost_us if earlier else None
    if cost_us is None and not _any_run_lives(configuration.state_folder):
        cost_us = calibrated_cost_us()
    decided = fitting_side_by_side(present_duts(configuration).values(), cost_us)
    decision = _Decision(cost_us=cost_us, count=decided.count, reason=decided.reason)
    replace_file(configuration.state_folder / _NAME, _adapter().dump_json(decision))
    return decided


def decided_side_by_side(configuration: AgentConfiguration) -> int:
    """Return what the agent decided; 1 before it has."""
    if configuration.side_by_side is not None:
        return configuration.side_by_side
    decision = _read(configuration.state_folder)
    return decision.count if decision else 1


def _read(state_folder: Path) -> _Decision | None:
    try:
        return _adapter().validate_json(read_regular(state_folder / _NAME, _MAX_BYTES))
    except (OSError, ValidationError):  # decided and calibrated again by the next start of the agent
        return None


def _any_run_lives(state_folder: Path) -> bool:
    try:
        return any(RunState(path=folder).is_locked for folder in (state_folder / "runs").glob("*"))
    except RecordError:  # its lock cannot be read
        return True
