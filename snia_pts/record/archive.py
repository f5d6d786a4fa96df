"""The archive of a run: its folder as one compressed file, ``NAME.tar.xz``, which is read without unpacking it."""

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
#: Limits of an archive that is read: files and folders, the content of all files, a header, the decompressor's memory.
_MAX_FILES, _MAX_BYTES, _MAX_HEADER_BYTES, _MEMORY_BYTES = 100_000, 64 * GIB, MIB, 128 * MIB
#: What stays free on the disk of temporary files.
_RESERVE_BYTES = 256 * MIB
#: Files of a folder that list the tests in its subfolders: those of ``record.suite`` and ``batch``.
_LISTS_OF_TESTS = ("suite.json", "batch.json")
_HINT = "Restore it from a backup; its SHA-256 is in the store."
_SPACE_HINT = "Free space for temporary files, or name another folder in the environment variable TMPDIR."


def is_archive(path: Path) -> bool:
    """Return whether ``path`` is an archive, by its name."""
    return path.name.endswith(SUFFIX) and path.is_file()


@contextmanager
def opened(path: Path) -> Iterator[RunFolder]:
    """Yield the run folder at ``path``; an archive is unpacked into a temporary folder, which is removed at the end.

    Whether a run is there is not checked.  Raises RecordError, which names the archive.
    """
    if not is_archive(path):
        yield RunFolder(path=path)
        return
    with ExitStack() as stack:
        with _naming(path):
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
    """Yield the journal of the run at ``path``, to read it once; an archive, whose first file it is, is not unpacked.

    Raises RecordError and OSError.
    """
    journal = RunFolder(path=path).journal
    if not is_archive(path):
        with open_regular(journal) as file:
            yield file
        return
    with _naming(path), closing(_members(path)) as members:
        content = next((content for place, content in members if place == journal.name), None)
        if content is None:
            raise RecordError(path=path, reason=f"it has no {journal.name}", hint=_HINT)
        yield content


# -- writing ----------------------------------------------------------------------------------------------------------


def pack(folder: Path, archive: Path) -> str:
    """Write the archive of a folder, and compare it with the folder; return the SHA-256 of the archive.

    A crash leaves no partial archive.  Raises RecordError if the folder has anything but folders and regular files, or
    changes meanwhile, OSError, and RunFolderError if other users may change a folder.
    """
    with keep_folder_open(folder):
        replace_file(archive, _packed(folder, archive.name.removesuffix(SUFFIX)))
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
    """Return everything in a folder with its state: the journal, then by name, a folder before its files."""
    found = list[tuple[str, os.stat_result]]()
    for parent, folders, files in os.walk(folder, onerror=_raise):
        for path in (Path(parent, name) for name in (*folders, *files)):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise RecordError(path=path, reason="it is neither a folder nor a regular file", hint="Remove it.")
            found.append((str(path.relative_to(folder)), status))
    return sorted(found, key=lambda item: (item[0] != "journal.jsonl", item[0].split("/")))


def _raise(error: OSError) -> None:
    raise error


def _packed(folder: Path, name: str) -> Iterator[bytes]:
    compressor = lzma.LZMACompressor(check=lzma.CHECK_SHA256)
    for place, status in folder_content(folder):
        member = tarfile.TarInfo(f"{name}/{place}")
        member.mtime, is_folder = int(status.st_mtime), stat.S_ISDIR(status.st_mode)
        member.type, member.mode = (tarfile.DIRTYPE, 0o755) if is_folder else (tarfile.REGTYPE, 0o644)
        member.size = 0 if is_folder else status.st_size
        yield compressor.compress(member.tobuf(tarfile.PAX_FORMAT))
        if not is_folder:
            with open_regular(folder / place) as file:
                for chunk in _exactly(file, member.size, folder / place):
                    yield compressor.compress(chunk)
        yield compressor.compress(bytes(-member.size % tarfile.BLOCKSIZE))
    yield compressor.compress(bytes(2 * tarfile.BLOCKSIZE))
    yield compressor.flush()


def _exactly(file: BufferedReader, size: int, path: Path) -> Iterator[bytes]:
    while size:
        chunk = file.read(min(size, _CHUNK_BYTES))
        if not chunk:
            raise _changed(path)
        size -= len(chunk)
        yield chunk


def _changed(path: Path) -> RecordError:
    return RecordError(path=path, reason="it changed while it was packed", hint="Try again.")


def _require_equal(folder: Path, archive: Path) -> None:
    """Raise RecordError unless an archive has everything in a folder, and nothing else."""
    packed = _compared(folder, archive)
    for place, is_equal in packed.items():
        if not is_equal:
            raise _changed(folder / place)
    if packed.keys() != {place for place, _ in folder_content(folder)}:
        raise _changed(folder)


def _compared(folder: Path, archive: Path) -> dict[str, bool]:
    """Return for everything in an archive whether it is, unchanged, in a folder."""
    with _naming(archive):
        return {place: _is_equal(folder / place, content) for place, content in _members(archive)}


def _is_equal(path: Path, content: IO[bytes] | None) -> bool:
    """Return whether there is a file with this content; for None, whether there is a folder."""
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
    """Remove a folder whose content is, unchanged, in its archive: the journal first, so that the rest is no run.

    It can be killed and called again.  Raises FolderKept before it removes anything if the folder has something else,
    or if a batch or suite would test the drive again without it.
    """
    if not os.path.lexists(folder):
        return
    for name in _LISTS_OF_TESTS:
        if os.path.lexists(folder.parent / name):
            reason = f"{name} of {folder.parent} lists its test, which resume would start again"
            raise FolderKept(path=folder, reason=reason, hint=f"Keep it there; the run is in {archive}, too.")
    with keep_folder_open(folder):
        content, packed = folder_content(folder), _compared(folder, archive)
        for place, _ in content:
            if not packed.get(place):
                reason = f"{place} differs from the archive, or is not in it"
                raise FolderKept(path=folder, reason=reason, hint=f"Keep or remove it; the run is in {archive}.")
        subfolders = [folder / place for place, status in content if stat.S_ISDIR(status.st_mode)]
        for place, status in content:
            if not stat.S_ISDIR(status.st_mode):
                _remove(folder / place, remove)
        for path in reversed(subfolders):
            _remove(path, remove_folder)
    _remove(folder, remove_folder)


def _remove(path: Path, remove_it: Callable[[Path], None]) -> None:
    """Remove a file or an empty folder; raises FolderKept."""
    try:
        remove_it(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FolderKept(path=path, reason=reason, hint="Run this as a user who may remove it.") from None


# -- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def _naming(archive: Path) -> Iterator[None]:
    """Convert the errors of an archive's content to a RecordError that names it."""
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
        for place, content in _members(archive, free_bytes):
            try:
                if content is None:
                    make_folder(folder / place, new=True)
                else:
                    with create(folder / place) as file:
                        shutil.copyfileobj(content, file, _CHUNK_BYTES)
            except (FileExistsError, RunFolderError):
                raise ValueError(f"it has {place} twice") from None


def _members(archive: Path, free_bytes: int | None = None) -> Generator[tuple[str, IO[bytes] | None]]:
    """Yield everything in an archive by its place in the run folder: a file, or None for a folder.

    Raises OSError, also if all files have more than ``free_bytes``, and the errors that ``_naming`` converts.
    """
    total_bytes, top = 0, ""
    with open_regular(archive) as file:
        stream = _Decompressed(file)
        members = tarfile.open(mode="r|", fileobj=cast("IO[bytes]", stream))  # noqa: SIM115 - it has no file of its own
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
    """The content of a file in the format xz, read with limited memory: tarfile reads a header of any size whole."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._allowed = file, 0
        self.allow(0)
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)

    def allow(self, size: int) -> None:
        """Allow the reader the content of a file, and the headers of the next one."""
        self._allowed = size + _MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; none at the end.

        Raises EOFError if the end of the file is missing, and ValueError if more is read than is allowed.
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
