"""The configuration of a host: which drives may be destroyed, how they may be purged, and where its runs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from ..errors import RequestRefused, UsageError
from ..spec.toml_file import read_file, spec_error
from ..trusted_paths import tampering_risk
from ..units import parse_size
from .request import Line, Name, RunRequest

_WHAT = "The configuration of the agent"
_REMEDY = "Correct the file; docs/fleet.rst shows one."
_MAX_SIDE_BY_SIDE = 1024
#: Exists on hosts whose first process is systemd (sd_booted).
_SYSTEMD = Path("/run/systemd/system")
#: A process of its own that outlives the agent, or a unit of systemd.
Units = Literal["process", "systemd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDrive:
    """A drive whose data the runs of a lab may destroy.

    Without ``target`` the drive is found by its model and serial number.  For a trial, ``target`` is ``sim:PRESET``, or
    a file of ``size``, which ``overwrite`` allows to exist before.  ``purge_command`` is the purge method ``command``.
    """

    __pydantic_config__ = {"extra": "forbid"}
    serial: Name
    target: Line | None = None
    size: Line | None = None
    overwrite: bool = False
    discard_data: bool = False
    purge_command: Line | None = None

    @property
    def size_bytes(self) -> int | None:
        """The size of the file; raises UsageError."""
        return None if self.size is None else parse_size(self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """The content of the configuration, as it is written there."""

    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    host: Name
    database: Annotated[str, MinLen(1), MaxLen(2000)] = field(repr=False)
    state_folder: Path
    run_folder: Path
    drive: Annotated[tuple[AgentDrive, ...], MinLen(1)]
    purges: tuple[Name, ...] = ("auto",)
    side_by_side: Annotated[int, Ge(1), Le(_MAX_SIDE_BY_SIDE)] | None = None
    units: Units | None = None
    host_service: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfiguration:
    """The configuration of a host, from the file at ``path``; ``drives`` by their serial numbers.

    ``state_folder`` has the state of each run on this host, ``run_folder`` the run folders.  ``side_by_side`` is None
    for as many runs as fit the host.  ``host_service`` is the socket of the service that starts runs for an agent
    without rights on drives; None if the agent starts them itself.
    """

    path: Path
    host: str
    database: str = field(repr=False)
    state_folder: Path
    run_folder: Path
    drives: Mapping[str, AgentDrive]
    purges: tuple[str, ...]
    side_by_side: int | None
    units: Units
    host_service: Path | None = None

    def drive(self, request: RunRequest) -> AgentDrive:
        """Return the drive of a request; raises RequestRefused if this host may not perform it."""
        drive = self.drives.get(request.serial)
        if drive is None:
            raise RequestRefused(
                run_id=str(request.run_id),
                reason=f"the host {self.host} has no drive {request.serial} that may be destroyed",
                hint=f"If the drive is there, and its data may be destroyed, list it in {self.path}.",
            )
        purge = request.options.purge
        allowed = purge in self.purges if purge != "command" else drive.purge_command is not None
        if not allowed:
            raise RequestRefused(
                run_id=str(request.run_id),
                reason=f"the host {self.host} does not allow the purge method {purge}",
                hint=f"It allows {', '.join(self.purges)}; others are added in {self.path}.",
            )
        return drive


def read_configuration(path: Path) -> AgentConfiguration:
    """Return the configuration in a TOML file; raises SpecError with all mistakes, each with key and value.

    For root, raises SpecError also if other users could change the file.
    """
    path = path.absolute()
    file = read_file(path, AgentFile, _WHAT, remedy=_REMEDY)
    if mistakes := _mistakes(path, file):
        raise spec_error(str(path), mistakes, _WHAT, remedy=_REMEDY)
    return AgentConfiguration(
        path=path,
        host=file.host,
        database=file.database,
        state_folder=file.state_folder,
        run_folder=file.run_folder,
        drives={drive.serial: drive for drive in file.drive},
        purges=file.purges,
        side_by_side=file.side_by_side,
        units=file.units or ("systemd" if _SYSTEMD.is_dir() else "process"),
        host_service=file.host_service,
    )


def _mistakes(path: Path, file: AgentFile) -> list[str]:
    mistakes = [
        f"{name}: {str(folder)!r}: expected an absolute path"
        for name in ("state_folder", "run_folder", "host_service")
        if (folder := getattr(file, name)) is not None and not folder.is_absolute()
    ]
    serials = [drive.serial for drive in file.drive]
    for number, drive in enumerate(file.drive, start=1):
        if serials.index(drive.serial) != number - 1:
            mistakes.append(f"drive {number}.serial: {drive.serial!r}: expected each serial number once")
        try:
            _ = drive.size_bytes
        except UsageError:
            mistakes.append(f"drive {number}.size: {drive.size!r}: expected a size like 1 GB")
    try:
        risk = tampering_risk(path)
    except OSError as error:
        risk = f"{path} cannot be examined: {error.strerror or error}"
    return [*mistakes, *([f"this file decides which data are destroyed, and {risk}"] if risk else [])]
