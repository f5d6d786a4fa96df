"""Remembers which files a report wrote, so that files of the user, and files that the user changed, are left alone.

Each folder with such files has a list of their checksums, in the format of ``sha256sum``.  A file is the report's own
if the list has it with its checksum; any other file is the user's, whatever its name.  The list's first line, a
comment, has the checksum of the other lines; without it the list is the user's, too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import RunFolderError
from ..files import open_regular, read_regular, remove, replace_file
from .checksums import FILE_NAME

#: The list of the files directly in a run folder, where ``SHA256SUMS`` has the checksums of the evidence.
REPORT_LIST = "report.sha256"
#: The checksums of files by their names; a file has two if a report was interrupted.
Checksums = Mapping[str, Collection[str]]

_HEADER = "# written by snia-pts; SHA-256 of the next lines: "
_LINE = re.compile(r"([0-9a-f]{64})  ([^/]+)")
_MAX_BYTES = 1 << 20


def list_path(folder: Path, file: str) -> Path:
    """Return the list for a report's ``file``, a path relative to the run folder."""
    inside = (folder / file).parent
    return inside / (REPORT_LIST if inside == folder else FILE_NAME)


@contextmanager
def recorded(contents: Mapping[Path, Mapping[str, bytes]]) -> Iterator[None]:
    """Record the files that the block writes, by list and name; then remove the last report's other files.

    Directly in the run folder, files of other formats stay, and are still listed.  Raises RunFolderError, before
    anything is written, if a file of the user has one of the names.
    """
    new = {
        path: {name: {hashlib.sha256(data).hexdigest()} for name, data in files.items()}
        for path, files in contents.items()
    }
    old = {path: _read(path) for path in contents}
    for path in contents:
        _require_own(path.parent, new[path], new[path], old[path])
    for path in contents:
        _write(path, new[path], old[path])
    yield
    for path in contents:
        other = {name: old[path][name] for name in old[path].keys() - new[path].keys()}
        if path.name == REPORT_LIST:
            _write(path, new[path], other)
            continue
        for name in other:
            if _is_own(path.parent / name, other):
                remove(path.parent / name)
        _write(path, new[path])


def written(path: Path, names: Collection[str] = ()) -> list[Path]:
    """Return the files of the list at ``path``, with the list itself.

    Raises RunFolderError if one was changed, or if a file with one of ``names`` is the user's, because the next report
    could not replace it.
    """
    if path.parent.is_symlink():
        return []
    listed = _read(path)
    _require_own(path.parent, {*listed, *names}, listed)
    return [*(path.parent / name for name in listed), path]


def _read(path: Path) -> dict[str, set[str]]:
    """Return what a list has; raises RunFolderError if the list is the user's."""
    listed: dict[str, set[str]] = {}
    try:
        text = read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):  # no report wrote here
        return {}
    except OSError as error:
        raise RunFolderError(path=path.parent, reason=f"{path.name}: {error.strerror}") from None
    lines = text.partition("\n")[2]
    if text != _with_header(lines):
        reason = f"{path.name} was not written by snia-pts, or was changed since then"
        raise RunFolderError(path=path.parent, reason=f"{reason}; move it elsewhere, with the files that it lists")
    for match in filter(None, map(_LINE.fullmatch, lines.splitlines())):
        listed.setdefault(match[2], set()).add(match[1])
    return listed


def _write(path: Path, *lists: Checksums) -> None:
    lines = {f"{sha256}  {name}\n" for files in lists for name, sums in files.items() for sha256 in sums}
    replace_file(path, _with_header("".join(sorted(lines))).encode(), durable=False)


def _with_header(lines: str) -> str:
    return f"{_HEADER}{hashlib.sha256(lines.encode()).hexdigest()}\n{lines}"


def _require_own(folder: Path, names: Iterable[str], *lists: Checksums) -> None:
    for name in names:
        if os.path.lexists(folder / name) and not _is_own(folder / name, *lists):
            reason = f"{name} was not written by snia-pts, or was changed since then; move it elsewhere"
            raise RunFolderError(path=folder, reason=reason)


def _is_own(path: Path, *lists: Checksums) -> bool:
    """Return whether a list has a file with its checksum; anything but a regular file is the user's."""
    try:
        with open_regular(path) as file:
            sha256 = "" if path.is_symlink() else hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return False
    return any(sha256 in files.get(path.name, ()) for files in lists)
