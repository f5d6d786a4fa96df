"""The verb ``host``: shows host settings that affect results; restores those that killed runs changed."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap

from ...api.hosts import host as host_settings
from ...errors import RecordError, UsageError
from ...lab.host.conditions import restore_settings
from ...model.test_platform import HostSetting
from ...record.folder import unreadable
from ...units import counted
from ..text.formatting import json_text
from ..text.lines import print_lines

_INDENT = " " * 4


def host(arguments: argparse.Namespace) -> int:
    """Print the host settings that affect results, or restore those that killed runs changed."""
    if arguments.restore is not None:
        return _restore(arguments)
    settings = host_settings(arguments.target)
    if arguments.json:
        target = None if arguments.target is None else str(arguments.target)
        print(json_text({"format": 1, "target": target, "settings": [asdict(setting) for setting in settings]}))
        return 0
    print_lines(setting_lines(settings, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
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
            (folder / "array").exists()  # raises if this user may not read the folder
    except OSError as error:
        raise unreadable(arguments.restore, error) from None
    print_lines(restore_settings(folder) or ("nothing to restore",))
    return 0


def setting_lines(settings: Sequence[HostSetting], width: int | None) -> Iterator[str]:
    """Yield a table of settings with the reason below each; without a width, a row of all columns for each."""
    if width is None:
        rows = ((item.judgement, item.name, item.value, item.recommended or "-", item.reason) for item in settings)
        yield from ("\t".join(row) for row in (("judgement", "setting", "value", "recommended", "reason"), *rows))
        return
    name_width = max(len(setting.name) for setting in settings)
    for setting in settings:
        advised = setting.recommended and setting.judgement in ("affects results", "noted")
        value = f"{setting.value}; recommended: {setting.recommended}" if advised else setting.value
        line, indent = f"{setting.judgement:15}  {setting.name:{name_width}}  ", " " * min(19 + name_width, width // 2)
        yield from wrap(f"{line}{value}", max(width, 40), subsequent_indent=indent)
        yield from wrap(setting.reason, max(width, 40), initial_indent=_INDENT, subsequent_indent=_INDENT)
    count = sum(setting.judgement == "affects results" for setting in settings)
    yield ""
    yield f"{counted(count, 'setting')} that affect results" if count != 1 else "1 setting that affects results"
