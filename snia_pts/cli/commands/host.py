"""The verb ``host``: what of this host may change the numbers, and what killed runs left there."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap

from ...errors import RecordError, TargetUnfit, UsageError
from ...lab.device.identity import block_directory, read_dut
from ...lab.host.conditions import put_back
from ...lab.host.tuning import look
from ...model.test_platform import HostSetting
from ...record.folder import unreadable
from ...units import counted

_INDENT = " " * 4


def host(arguments: argparse.Namespace) -> int:
    """Tell the settings of the host that may change what is measured; or put back what killed runs left."""
    if arguments.restore is not None:
        return _restore(arguments)
    found = [each.setting for each in look(_block(arguments.target))]
    if arguments.json:
        target = None if arguments.target is None else str(arguments.target)
        print(json.dumps({"format": 1, "target": target, "settings": [asdict(each) for each in found]}, indent=1))
        return 0
    for line in setting_lines(found, shutil.get_terminal_size().columns if sys.stdout.isatty() else None):
        print(line)
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    if arguments.target is not None or arguments.json:
        detail = "--restore takes the folder of a run, or nothing."
        raise UsageError(detail=detail, hint="snia-pts host --restore [RUN].")
    folder = None if arguments.restore == Path() else arguments.restore.resolve()
    if folder is None and os.geteuid() != 0:
        raise UsageError(
            detail="--restore: only root may set the host.", hint="Run as root, or name the folder of a run of yours."
        )
    try:
        if folder is not None and not folder.is_dir():
            reason = "it is not a folder" if folder.exists() else "there is no such folder"
            raise RecordError(path=arguments.restore, reason=reason)
        if folder is not None:
            (folder / "array").exists()  # tells whether this user may look into it
    except OSError as error:
        raise unreadable(arguments.restore, error) from None
    for line in put_back(folder) or ("nothing is left to put back",):
        print(line)
    return 0


def _block(target: Path | None) -> Path | None:
    """Return the folder in sysfs of a drive; raises TargetMissing, or TargetUnfit for what is none."""
    if target is None:
        return None
    dut = read_dut(target)
    if dut.kind == "file":
        raise TargetUnfit(path=target, reason="it is a file, and no drive is set up for it", hint="Name a drive.")
    return block_directory(Path(dut.path).stat().st_rdev)


def setting_lines(found: Sequence[HostSetting], width: int | None) -> Iterator[str]:
    """The settings in a table, with the reason below each; without a width, a row each with all of it."""
    if width is None:
        rows = ((each.judgement, each.name, each.value, each.wish or "-", each.reason) for each in found)
        yield from ("\t".join(row) for row in (("judgement", "setting", "value", "better", "reason"), *rows))
        return
    longest = max(len(each.name) for each in found)
    for each in found:
        better = f"; better: {each.wish}" if each.judgement in ("matters", "noted") and each.wish else ""
        yield from wrap(f"{each.judgement:8}  {each.name:{longest}}  {each.value}{better}", max(width, 40))
        yield from wrap(each.reason, max(width, 40), initial_indent=_INDENT, subsequent_indent=_INDENT)
    matters = sum(each.judgement == "matters" for each in found)
    yield ""
    yield f"{counted(matters, 'setting')} that matter" if matters != 1 else "1 setting that matters"
