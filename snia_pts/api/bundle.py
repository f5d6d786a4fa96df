"""Packs a run with the facts of this host, for a report of a fault."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import distributions
from pathlib import Path

from ..errors import RecordError, SniaPtsError, UsageError
from ..files import create_file
from ..lab.fio.probe import fio_version
from ..lab.host.platform import read_platform
from ..record.archive import SUFFIX, folder_content, opened, pack
from ..record.folder import RunFolder
from ..record.masking import mask
from ..results.key_figures import key_figures
from ..temporary import temporary_folder
from ..text import json_values
from .assessment import Assessment, assess_run
from .check import FioIdentity
from .hosts import host
from .run import load

#: The file of a bundle with the facts of the host.
HOST_NAME = "host.json"
_NOT_MASKED = "Bundle it without --mask, if you may send its texts."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle and its SHA-256; ``removed`` are the files of the run that are not in it."""

    path: Path
    sha256: str
    removed: tuple[str, ...]


def bundle(path: str | os.PathLike[str], to: str | os.PathLike[str], *, masked: bool = False) -> Bundle:
    """Pack the run at ``path``, and the facts of this host in ``host.json``, into the archive ``to``.

    Commands that read a run read a bundle, too.  With ``masked``, the texts that identify the drive, the host or a
    person are replaced, and the masked run is judged again: its figures must be those of the run.  Raises UsageError if
    ``to`` exists or has another suffix; RecordError if there is no run, or if it cannot be masked; OSError.
    """
    target = Path(to)
    if not target.name.endswith(SUFFIX):
        raise UsageError(detail=f"The name of a bundle ends with {SUFFIX}.", hint=f"For example --to fault{SUFFIX}.")
    if os.path.lexists(target):
        raise UsageError(detail=f"{target} exists.", hint="Choose another name with --to.")
    with temporary_folder() as scratch, opened(Path(path)) as folder:
        if not folder.journal.is_file():
            raise RecordError(path=Path(path), reason="it has no journal.jsonl")
        folder_content(folder.path)  # refuses symlinks and special files
        copy = RunFolder(path=scratch / "run")
        shutil.copytree(folder.path, copy.path)
        removed = _mask(copy, Path(path)) if masked else ()
        facts = _host_facts(scratch, masked=masked)
        document = json.dumps(json_values({**facts, "removed": removed}), indent=1)
        create_file(copy.path / HOST_NAME, f"{document}\n".encode())
        return Bundle(path=target, sha256=pack(copy.path, target), removed=removed)


def _mask(copy: RunFolder, path: Path) -> tuple[str, ...]:
    """Mask a copy of the run at ``path``; raises RecordError if its judgement is then another one."""
    before = assess_run(load(copy.path))
    try:
        removed = mask(copy, before.run.result.facts)
        after = assess_run(load(copy.path))
    except RecordError as error:
        raise RecordError(path=path, reason=f"it cannot be masked ({error.reason})", hint=_NOT_MASKED) from None
    if _judgement(after) != _judgement(before):
        raise RecordError(path=path, reason="masked, it is judged differently", hint=_NOT_MASKED)
    return removed


def _judgement(assessment: Assessment) -> str:
    """Return the end and the figures of a run, and the number of differences, whose texts may be masked; nan is nan."""
    result = assessment.run.result
    return repr((result.ending, key_figures(result), len(assessment.differences)))


def _host_facts(scratch: Path, *, masked: bool) -> dict[str, object]:
    """Return the facts of this host: platform, settings, and the versions of the Python packages."""
    version = problem = ""
    try:
        version = fio_version(scratch)
    except SniaPtsError as error:
        problem = str(error)
    platform = read_platform(FioIdentity(version=version))
    packages = {item.name: item.version for item in distributions()}
    return {
        "format": 1,
        "made": datetime.now().astimezone().isoformat(timespec="seconds"),
        "fio": problem or version,
        "platform": asdict(replace(platform, hostname="") if masked else platform),
        "settings": [asdict(setting) for setting in host()],
        "packages": dict(sorted(packages.items())),
    }
