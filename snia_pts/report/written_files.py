"""Remembers which files of figures/ and tables/ a report wrote, so that files of the user there are left alone.

Each of these folders has a list of checksums, in the format of ``sha256sum``.  A file is the report's own if the list
has it with its checksum; any other file is the user's, whatever its name.  The list's first line, a comment, has the
checksum of the other lines; without it the list is the user's, too.
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

#: The checksums of files by their names; a file has two if a report was interrupted.
Checksums = Mapping[str, Collection[str]]

_HEADER = "# written by snia-pts; SHA-256 of the next lines: "
_LINE = re.compile(r"([0-9a-f]{64})  ([^/]+)")
_MAX_BYTES = 1 << 20


@contextmanager
def recorded(contents: Mapping[Path, Mapping[str, bytes]]) -> Iterator[None]:
    """Record the files that the block writes, by folder and name; then remove the last report's other files.

    Raises RunFolderError, before anything is written, if a file of the user has one of the names.
    """
    new = {
        folder: {name: {hashlib.sha256(data).hexdigest()} for name, data in files.items()}
        for folder, files in contents.items()
    }
    old = {folder: _read(folder) for folder in contents}
    for folder in contents:
        _require_own(folder, new[folder], new[folder], old[folder])
    for folder in contents:
        _write(folder, new[folder], old[folder])
    yield
    for folder in contents:
        for name in old[folder].keys() - new[folder].keys():
            if _is_own(folder / name, old[folder]):
                remove(folder / name)
        _write(folder, new[folder])


def written(folder: Path) -> list[Path]:
    """Return the files that reports wrote into a folder, with the list itself.

    Raises RunFolderError if one was changed, because the next report could not replace it.
    """
    if folder.is_symlink():
        return []
    listed = _read(folder)
    _require_own(folder, listed, listed)
    return [*(folder / name for name in listed), folder / FILE_NAME]


def _read(folder: Path) -> dict[str, set[str]]:
    """Return what a folder's list has; raises RunFolderError if the list is the user's."""
    listed: dict[str, set[str]] = {}
    try:
        text = read_regular(folder / FILE_NAME, _MAX_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):  # no report wrote here
        return {}
    except OSError as error:
        raise RunFolderError(path=folder, reason=f"{FILE_NAME}: {error.strerror}") from None
    lines = text.partition("\n")[2]
    if text != _with_header(lines):
        reason = f"{FILE_NAME} was not written by snia-pts, or was changed since then"
        raise RunFolderError(path=folder, reason=f"{reason}; move it elsewhere, with the files that it lists")
    for match in filter(None, map(_LINE.fullmatch, lines.splitlines())):
        listed.setdefault(match[2], set()).add(match[1])
    return listed


def _write(folder: Path, *lists: Checksums) -> None:
    lines = {f"{sha256}  {name}\n" for files in lists for name, sums in files.items() for sha256 in sums}
    replace_file(folder / FILE_NAME, _with_header("".join(sorted(lines))).encode(), durable=False)


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
