"""The archive of a run: its folder as one compressed file, ``NAME.tar.xz``.

Commands read an archive directly; the user need not unpack it.
"""

from __future__ import annotations

import errno
import lzma
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from ..errors import FolderKept, RecordError, RunFolderError, SniaPtsError
from ..files import (
    create,
    directory,
    keep_folder_open,
    make_folder,
    open_regular,
    remove,
    remove_folder,
    replace_file,
)
from ..temporary import temporary_folder
from ..units import GIB, MIB, capacity
from .folder import RunFolder, unreadable

SUFFIX = ".tar.xz"
_CHUNK_BYTES = MIB
#: Limits when reading: number of files and folders, content of all files, size of a header, decompressor's memory.
_MAX_FILES, _MAX_BYTES, _MAX_HEADER_BYTES, _MEMORY_BYTES = 100_000, 64 * GIB, MIB, 128 * MIB
#: Space that unpacking leaves free on the disk of temporary files.
_RESERVE_BYTES = 256 * MIB
#: Files that list the tests in the subfolders of their folder; ``record.suite`` and ``batch`` write them.
_LISTS_OF_TESTS = ("suite.json", "batch.json")
_HINT = "Restore it from a backup; its SHA-256 is in the store."
_SPACE_HINT = "Free space for temporary files, or name another folder in the environment variable TMPDIR."


def is_archive(path: Path) -> bool:
    """Return whether ``path`` is an archive, by its name."""
    return path.name.endswith(SUFFIX) and path.is_file()


@contextmanager
def opened(path: Path) -> Iterator[RunFolder]:
    """Yield the run folder at ``path``; unpack an archive into a temporary folder, and remove this folder at the end.

    Does not check whether the folder contains a run.  Raises RecordError with the path of the archive.
    """
    if not is_archive(path):
        yield RunFolder(path=path)
        return
    with ExitStack() as stack:
        with _errors_as_record_error(path):
            folder = stack.enter_context(temporary_folder()) / "run"
            _unpack(path, folder)
        try:
            yield RunFolder(path=folder)
        except RecordError as error:
            inside = Path(error.path)
            if not inside.is_relative_to(folder):
                raise
            hint = _HINT if str(folder) in error.hint else error.hint
            raise RecordError(path=path / inside.relative_to(folder), reason=error.reason, hint=hint) from None


@contextmanager
def opened_journal(path: Path) -> Iterator[IO[bytes]]:
    """Yield the journal of the run at ``path``; it can be read once.

    An archive is not unpacked: the journal is its first file.  Raises RecordError and OSError.
    """
    journal = RunFolder(path=path).journal
    if not is_archive(path):
        with open_regular(journal) as file:
            yield file
        return
    with _errors_as_record_error(path), closing(_members(path)) as members:
        content = next((content for relative_path, content in members if relative_path == journal.name), None)
        if content is None:
            raise RecordError(path=path, reason=f"it has no {journal.name}", hint=_HINT)
        yield content


# -- writing ----------------------------------------------------------------------------------------------------------


def pack(folder: Path, archive: Path) -> str:
    """Write the archive of a folder, and compare it with the folder; return the SHA-256 of the archive.

    A crash leaves no partial archive.  Raises RecordError if the folder contains special files or symlinks, or changes
    while it is packed.  Raises RunFolderError if other users can change a folder.  Raises OSError.
    """
    with keep_folder_open(folder):
        replace_file(archive, _pack_stream(folder, archive.name.removesuffix(SUFFIX)))
        try:
            _require_equal(folder, archive)
        except BaseException:
            remove(archive)
            raise
    return digest(archive)


def digest(archive: Path) -> str:
    """Return the SHA-256 of an archive; raises RecordError."""
    whole = sha256()
    try:
        with open_regular(archive) as file:
            while chunk := file.read(_CHUNK_BYTES):
                whole.update(chunk)
    except OSError as error:
        raise unreadable(archive, error) from None
    return whole.hexdigest()


def folder_content(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Return the relative path and lstat result of every entry in a folder.

    The entries are sorted by name; the journal is first, and a folder precedes its files.  Raises RecordError for
    special files and symlinks.
    """
    entries = list[tuple[str, os.stat_result]]()
    for parent, folders, files in os.walk(folder, onerror=_raise):
        for path in (Path(parent, name) for name in (*folders, *files)):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise RecordError(path=path, reason="it is neither a folder nor a regular file", hint="Remove it.")
            entries.append((str(path.relative_to(folder)), status))
    return sorted(entries, key=lambda item: (item[0] != "journal.jsonl", item[0].split("/")))


def _raise(error: OSError) -> None:
    raise error


def _pack_stream(folder: Path, name: str) -> Iterator[bytes]:
    compressor = lzma.LZMACompressor(check=lzma.CHECK_SHA256)
    for relative_path, status in folder_content(folder):
        member = tarfile.TarInfo(f"{name}/{relative_path}")
        member.mtime, is_folder = int(status.st_mtime), stat.S_ISDIR(status.st_mode)
        member.type, member.mode = (tarfile.DIRTYPE, 0o755) if is_folder else (tarfile.REGTYPE, 0o644)
        member.size = 0 if is_folder else status.st_size
        yield compressor.compress(member.tobuf(tarfile.PAX_FORMAT))
        if not is_folder:
            with open_regular(folder / relative_path) as file:
                for chunk in _read_exactly(file, member.size, folder / relative_path):
                    yield compressor.compress(chunk)
        yield compressor.compress(bytes(-member.size % tarfile.BLOCKSIZE))
    yield compressor.compress(bytes(2 * tarfile.BLOCKSIZE))
    yield compressor.flush()


def _read_exactly(file: BufferedReader, size: int, path: Path) -> Iterator[bytes]:
    while size:
        chunk = file.read(min(size, _CHUNK_BYTES))
        if not chunk:
            raise _changed_error(path)
        size -= len(chunk)
        yield chunk


def _changed_error(path: Path) -> RecordError:
    return RecordError(path=path, reason="it changed while it was packed", hint="Try again.")


def _require_equal(folder: Path, archive: Path) -> None:
    """Raise RecordError unless an archive has the same content as a folder."""
    packed = _compare(folder, archive)
    for relative_path, is_equal in packed.items():
        if not is_equal:
            raise _changed_error(folder / relative_path)
    if packed.keys() != {relative_path for relative_path, _ in folder_content(folder)}:
        raise _changed_error(folder)


def _compare(folder: Path, archive: Path) -> dict[str, bool]:
    """Return for each entry of an archive, by relative path, whether the folder has the same entry."""
    with _errors_as_record_error(archive):
        return {
            relative_path: _is_equal(folder / relative_path, content) for relative_path, content in _members(archive)
        }


def _is_equal(path: Path, content: IO[bytes] | None) -> bool:
    """Return whether ``path`` is a file with this content; if ``content`` is None, whether ``path`` is a folder."""
    if content is None or not path.is_file():
        return content is None and path.is_dir()
    try:
        file = open_regular(path)
    except OSError as error:
        raise unreadable(path, error) from None
    with file:
        while True:
            chunk = file.read(_CHUNK_BYTES)
            if chunk != content.read(_CHUNK_BYTES):
                return False
            if not chunk:
                return True


# -- removing a folder ------------------------------------------------------------------------------------------------


def remove_packed(folder: Path, archive: Path) -> None:
    """Remove a folder after checking that the archive contains all of it.

    The journal is removed first, so that a partly removed folder is not taken for a run.  The call can be killed and
    repeated.  Raises FolderKept, before removing anything, if the folder contains something that is not in the archive,
    or if it is in the folder of a suite or batch: resume would repeat its test if the folder were missing.
    """
    if not os.path.lexists(folder):
        return
    for name in _LISTS_OF_TESTS:
        if os.path.lexists(folder.parent / name):
            reason = f"{folder.parent} has a {name}; without the folder, resume would repeat its test"
            raise FolderKept(path=folder, reason=reason, hint=f"Keep it there; the run is in {archive}, too.")
    with keep_folder_open(folder):
        content, packed = folder_content(folder), _compare(folder, archive)
        for relative_path, _ in content:
            if not packed.get(relative_path):
                reason = f"{relative_path} differs from the archive, or the archive does not contain it"
                raise FolderKept(
                    path=folder, reason=reason, hint=f"Keep or remove {relative_path}; the run is in {archive}."
                )
        subfolders = [folder / relative_path for relative_path, status in content if stat.S_ISDIR(status.st_mode)]
        for relative_path, status in content:
            if not stat.S_ISDIR(status.st_mode):
                _remove(folder / relative_path, remove)
        for path in reversed(subfolders):
            _remove(path, remove_folder)
    _remove(folder, remove_folder)


def _remove(path: Path, remove_it: Callable[[Path], None]) -> None:
    """Remove a file or an empty folder; raises FolderKept."""
    try:
        remove_it(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FolderKept(path=path, reason=reason, hint="Repeat this as a user who may remove it.") from None


# -- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def _errors_as_record_error(archive: Path) -> Iterator[None]:
    """Convert errors in the content of an archive to a RecordError with the path of the archive."""
    try:
        yield
    except SniaPtsError:
        raise
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or "it is damaged"
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise RecordError(path=archive, reason=reason, hint=_SPACE_HINT if is_full else _HINT) from None


def _unpack(archive: Path, folder: Path) -> None:
    free_bytes = shutil.disk_usage(folder.parent).free - _RESERVE_BYTES
    with directory(folder.parent):
        make_folder(folder, new=True)
    with keep_folder_open(folder):
        for relative_path, content in _members(archive, free_bytes):
            try:
                if content is None:
                    make_folder(folder / relative_path, new=True)
                else:
                    with create(folder / relative_path) as file:
                        shutil.copyfileobj(content, file, _CHUNK_BYTES)
            except (FileExistsError, RunFolderError):
                raise ValueError(f"it contains {relative_path} twice") from None


def _members(archive: Path, free_bytes: int | None = None) -> Generator[tuple[str, IO[bytes] | None]]:
    """Yield the path of each entry, relative to the run folder, and the content of a file or None for a folder.

    Raises OSError, also if the total size exceeds ``free_bytes``, and the errors that ``_errors_as_record_error``
    converts.
    """
    total_bytes, top = 0, ""
    with open_regular(archive) as file:
        stream = _Decompressed(file)
        members = tarfile.open(mode="r|", fileobj=cast("IO[bytes]", stream))  # noqa: SIM115 - it opens no file
        for number, member in enumerate(members):
            if not (member.isfile() or member.isdir()) or member.issparse():
                raise ValueError(f"{member.name!r} is neither a folder nor a regular file")
            total_bytes += member.size
            if number >= _MAX_FILES or member.size < 0 or total_bytes > _MAX_BYTES:
                raise ValueError(f"it has more than {_MAX_FILES} files, or more than {capacity(_MAX_BYTES)}")
            if free_bytes is not None and total_bytes > free_bytes:
                raise OSError(errno.ENOSPC, "there is not enough space to unpack it")
            first, *parts = member.name.split("/")
            if {first, *parts} & {"", ".", ".."} or first != (top or first):
                raise ValueError(f"{member.name!r} is not the path of a file in one folder")
            top = first
            stream.allow(member.size)
            if parts:
                yield "/".join(parts), members.extractfile(member) if member.isfile() else None


class _Decompressed:
    """The decompressed content of an xz file, with limited memory.

    The limit is needed because tarfile reads a whole header into memory, whatever its size.
    """

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._allowed = file, 0
        self.allow(0)
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)

    def allow(self, size: int) -> None:
        """Permit reading ``size`` bytes of file content, plus the headers of the next file."""
        self._allowed = size + _MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; empty at the end.

        Raises EOFError if the end of the file is missing, and ValueError if more is read than ``allow`` permits.
        """
        while not self._decompressor.eof:
            chunk = self._file.read(_CHUNK_BYTES) if self._decompressor.needs_input else b""
            if not chunk and self._decompressor.needs_input:
                raise EOFError("its end is missing")
            if content := self._decompressor.decompress(chunk, size):
                self._allowed -= len(content)
                if self._allowed < 0:
                    raise ValueError(f"it has a header of more than {capacity(_MAX_HEADER_BYTES)}")
                return content
        return b""
