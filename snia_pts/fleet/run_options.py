"""Builds the options of a run from a request and the configuration of the host."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from ..cli.parser import BASIC
from ..model.run_options import SIMULATED, RunOptions
from ..runner.options import ResumeOptions, split_options
from .configuration import AgentDrive
from .request import ALL, RequestOptions, RunRequest

#: The target for a check of the options before the drive is looked for.
_ANY_DRIVE = "/dev/null"


def run_options(
    request: RunRequest, drive: AgentDrive, folder: Path, target: str | None = None
) -> tuple[RunOptions, ...]:
    """Return the options of the test, or of each test, on ``target``: the present path of the drive.

    What lets a run destroy data or start a program is that of the configuration.  Raises UsageError.
    """
    target = target or drive.target or _ANY_DRIVE
    options = {item.name: getattr(request.options, item.name) for item in fields(RequestOptions)}
    if request.options.purge == "command":
        options["purge"] = "auto"
    given = RunOptions(
        **options,
        test=BASIC[0] if request.test == ALL else request.test,
        target=target,
        run_folder=folder,
        limits_source="the request",
        **_given(request, drive, target),
        size_bytes=drive.size_bytes,
    )
    return split_options(given, BASIC) if request.test == ALL else (given,)


def resume_options(request: RunRequest, drive: AgentDrive, target: str, *, from_purge: bool) -> ResumeOptions:
    """Return the options to resume a run on ``target``, the present path of the drive."""
    return ResumeOptions(
        policy="purge" if from_purge else "rule",
        target=None if target.startswith(SIMULATED) else target,
        **_given(request, drive, target),
    )


def _given(request: RunRequest, drive: AgentDrive, target: str) -> dict[str, Any]:
    """Return the options that are given for each start: they destroy data or start a program."""
    command = drive.purge_command if request.options.purge == "command" else None
    serial = None if target.startswith(SIMULATED) else request.serial
    return {
        "serial": serial,
        "overwrite": drive.overwrite,
        "discard_data": drive.discard_data,
        "purge_command": command,
    }
