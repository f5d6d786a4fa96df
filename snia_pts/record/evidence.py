"""The files in evidence/ and their SHA-256 digests: stored in the journal, and compared with the files later."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import HostFailed
from ..files import is_unmoved, open_regular, present_path, sync_folder
from ..model.measurement import Measurement, Outcome, PurgeOutcome
from ..results.result import TestResult
from ..units import counted
from .folder import RunFolder

#: Valid names of evidence files: ASCII without spaces, at most one folder deep.
_NAME = re.compile(r"[!-.0-~]+(/[!-.0-~]+)?")
#: Suffixes of the files of a measurement.
_SUFFIXES = (
    ".fio",
    ".json",
    ".process.json",
    ".fallen.process.json",
    ".samples.json.gz",
    ".iostat.csv",
    ".iotop.csv",
    ".power.csv",
)
_MOVED = "All earlier measurements are there. Do not move the folder of a run before the run has ended."
#: Maximum number of names in a message.
_MAX_LISTED = 5
#: Larger than any evidence file.
_MAX_BYTES = 16 * 1024 * 1024 * 1024


class EvidenceLedger:
    """Computes the digests of evidence files for the entries of a journal, of each file once.

    A file is digested when it is complete.  The files of a measurement, and of the attempts rejected before it, are
    digested with that measurement, while the files of the next one are still being written; the files of a purge with
    its outcome; all others while no program runs.
    """

    def __init__(self, folder: Path, journaled: Collection[str] = (), *, durable: bool = True) -> None:
        """``journaled`` are the names of the files in ``folder`` whose digests are already in the journal.

        ``durable`` files are on stable storage when their digests are returned, so that a power failure leaves no
        entry whose evidence is lost.
        """
        self._folder, self._durable = folder, durable
        self._journaled = set(journaled)

    def digest_outcome(self, outcome: Outcome) -> dict[str, str]:
        """Return the digests of the files of an outcome; raises HostFailed if one cannot be read."""
        match outcome:
            case Measurement() if outcome.evidence:
                stems = (*(attempt.evidence for attempt in outcome.rejected), outcome.evidence)
                names = (f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES)
                return self._digests(name for name in names if self._is_regular(name))
            case PurgeOutcome():
                return self.digest_remaining()
        return {}

    def digest_remaining(self) -> dict[str, str]:
        """Return the digests of all files that are not in the journal yet; raises HostFailed if one cannot be read.

        Call it only while no program writes files.
        """
        return self._digests(name for name in self._names() if name not in self._journaled)

    def _names(self) -> Iterator[str]:
        try:
            yield from (name for name, regular in _list_files(self._folder) if regular and _NAME.fullmatch(name))
        except OSError as error:
            raise _unreadable(self._folder, error) from None

    def _is_regular(self, name: str) -> bool:
        try:
            return stat.S_ISREG((self._folder / name).lstat().st_mode)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable(self._folder / name, error) from None

    def _require_unchanged(self) -> None:
        """Raise HostFailed if the path of the folder no longer leads to the one that is kept open for the run.

        Programs write their files there; those in another folder of that name are not evidence of the run.
        """
        try:
            is_same = is_unmoved(self._folder)
        except OSError as error:
            if (now := present_path(self._folder)) != self._folder:
                reason = f"the run folder was moved during the run; its evidence is now {now}"
                raise HostFailed(step="journal", what=self._folder, reason=reason, hint=_MOVED) from None
            raise _unreadable(self._folder, error) from None
        if not is_same:
            raise HostFailed(
                step="journal",
                what=self._folder,
                reason="another process replaced the folder, or mounted something over it, during the run",
                hint="Put the original folder back; it has the files of all earlier measurements.",
            )

    def _digests(self, names: Iterable[str]) -> dict[str, str]:
        self._require_unchanged()
        digests = {}
        for name in names:
            try:
                digests[name] = _digest(self._folder / name, durable=self._durable)
            except OSError as error:
                raise _unreadable(self._folder / name, error) from None
        for folder in {(self._folder / name).parent for name in digests} if self._durable else ():
            try:
                sync_folder(folder)
            except OSError as error:
                raise _unreadable(folder, error) from None
        self._journaled |= digests.keys()
        return digests


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCheck:
    """The result of comparing evidence/ with the journal.

    ``differences`` has a sentence for each file that was altered or is missing, and for each extra file in a finished
    run.  In an unfinished run, extra files that belong to no measurement are listed in ``unjournaled`` instead, because
    a crash or a refused resume leaves such files.
    """

    differences: tuple[str, ...]
    unjournaled: tuple[str, ...]


def check_files(folder: RunFolder, result: TestResult) -> EvidenceCheck:
    """Compare all files in evidence/ with the digests in the journal, from which ``result`` was made."""
    measured = dict(_measured_files(result))
    expected = {**result.evidence, **measured}
    if folder.evidence.is_symlink():
        return EvidenceCheck(differences=("evidence/: it is a symlink",), unjournaled=())
    try:
        present = dict(_list_files(folder.evidence))
    except OSError as error:
        reason = f"evidence/: {error.strerror}"
        return EvidenceCheck(differences=(reason,) if expected else (), unjournaled=())
    differences = list(_differences(folder.evidence, expected, present))
    stems = {name.removesuffix(".json") for name in measured}
    required = {f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES} if result.ending != "finished" else present
    extra = sorted(present.keys() - result.evidence.keys())
    differences += (
        f"evidence/{_printable_name(name)}: the journal has no digest of it" for name in extra if name in required
    )
    return EvidenceCheck(
        differences=tuple(differences), unjournaled=tuple(name for name in extra if name not in required)
    )


def unjournaled(folder: RunFolder, journaled: Collection[str]) -> tuple[str, ...]:
    """Return the names of the files in evidence/ that are not ``journaled``; empty if it cannot be listed."""
    try:
        return tuple(name for name, _ in _list_files(folder.evidence) if name not in journaled)
    except OSError:
        return ()


def describe_unjournaled(names: Collection[str]) -> str:
    """Return ``3 evidence files without a journal entry: A, B, C``, with the first names only if there are many."""
    more = ", ..." if len(names) > _MAX_LISTED else ""
    files = counted(len(names), "evidence file")
    return f"{files} without a journal entry: {', '.join(map(_printable_name, sorted(names)[:_MAX_LISTED]))}{more}"


def _differences(folder: Path, expected: Mapping[str, str], present: Mapping[str, bool]) -> Iterator[str]:
    for name, sha256 in sorted(expected.items()):
        if name not in present:
            yield f"evidence/{_printable_name(name)}: the file is missing"
        elif not present[name]:
            yield f"evidence/{_printable_name(name)}: it is not a regular file"
        else:
            try:
                actual = _digest(folder / name)
            except OSError as error:
                too_large = error.errno == errno.EFBIG
                yield f"evidence/{name}: {'it is too large for an evidence file' if too_large else error.strerror}"
                continue
            if actual != sha256:
                yield f"evidence/{name}: its SHA-256 differs from the one in the journal"


def _measured_files(result: TestResult) -> Iterator[tuple[str, str]]:
    """Yield the name and digest of each answer that was read for a result, including rejected ones."""
    if result.facts.imported is not None:
        yield from ((file.name, file.sha256) for file in result.facts.imported.files)
        return
    for measurement in result.measurements:
        yield f"{measurement.evidence}.json", measurement.evidence_sha256
        for attempt in measurement.rejected:
            yield f"{attempt.evidence}.json", attempt.evidence_sha256


def _list_files(folder: Path, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the name of each entry of a folder and of its subfolders, and whether it is a regular file."""
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and not prefix:
            yield from _list_files(folder / entry.name, f"{entry.name}/")
        else:
            yield prefix + entry.name, entry.is_file(follow_symlinks=False)


def _digest(path: Path, *, durable: bool = False) -> str:
    with open_regular(path, _MAX_BYTES) as file:
        if durable:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _printable_name(name: str) -> str:
    return name if _NAME.fullmatch(name) else ascii(name)


def _unreadable(path: Path, error: OSError) -> HostFailed:
    return HostFailed(
        step="journal",
        what=path,
        reason=f"cannot read the evidence or sync it to disk: {error.strerror or error}",
    )
