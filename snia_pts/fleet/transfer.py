"""Sends run folders to the database of a lab, and receives them at the controller.

A folder is a manifest: its files with their sizes, modes and SHA-256, and their chunks.  Chunks are named by their
SHA-256, so that a chunk that is there is never sent again, even if its file has grown since.  Only regular files are
sent; the folder is named by the run, never by its host.  A manifest is a text of another host: it is checked before
anything is written.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import psycopg
from annotated_types import Ge, Le, MaxLen
from psycopg.rows import tuple_row
from pydantic import StringConstraints, TypeAdapter

from ..errors import RecordError, UploadRefused
from ..files import create, keep_folder_open, make_folder, open_regular, remove, rename, sync_folder
from ..record.archive import folder_content
from ..record.folder import unreadable
from ..spec.toml_file import validate
from ..text import one_line
from ..units import GIB, MIB, capacity

#: The size of all chunks of a file but the last one; the database refuses larger ones.
CHUNK_BYTES = MIB
#: Limits of a manifest: the same as those of an archive.
_MAX_FILES, _MAX_BYTES, _MAX_MANIFEST_BYTES = 100_000, 64 * GIB, 32 * MIB
_MAX_NAME_BYTES, _MAX_DEPTH = 255, 8
_MAX_SHOWN = 100
#: The modes of files that are accepted, and what is kept of them: only the owner may change a received file.
_MAX_MODE, _SAFE_MODE = 0o777, 0o755
#: What stays free on the disk of the controller.
_RESERVE_BYTES = 256 * MIB
#: How many digests are compared with the database at a time.
_BATCH = 1000
_AGAIN_HINT = "The agent sends the folder again."
_SPACE_HINT = "The results stay in the database; free space, or name another folder, and collect them again."

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file of a run folder: its path there, and the SHA-256 of its content and of each of its chunks."""

    __pydantic_config__ = {"extra": "forbid"}
    path: Annotated[str, MaxLen(4000)]
    size: Annotated[int, Ge(0), Le(_MAX_BYTES)]
    mode: Annotated[int, Ge(0), Le(_MAX_MODE)]
    sha256: Digest
    chunks: tuple[Digest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All files of a run folder; none if there is no folder."""

    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1] = 1
    files: Annotated[tuple[SentFile, ...], MaxLen(_MAX_FILES)]

    @property
    def chunks(self) -> frozenset[str]:
        """The SHA-256 of all chunks."""
        return frozenset(chunk for file in self.files for chunk in file.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A manifest in the database, as its agent sent it."""

    run_id: UUID
    digest: str
    manifest: bytes


@cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


# -- sending ----------------------------------------------------------------------------------------------------------


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a run folder; nothing may change the folder meanwhile.

    Raises RecordError for anything but folders and regular files.
    """
    if not os.path.lexists(folder):
        return Manifest(files=())
    try:
        with keep_folder_open(folder):
            return Manifest(
                files=tuple(
                    _sent_file(folder, place, status)
                    for place, status in folder_content(folder)
                    if stat.S_ISREG(status.st_mode)
                )
            )
    except OSError as error:
        raise unreadable(folder, error) from None


def _sent_file(folder: Path, place: str, status: os.stat_result) -> SentFile:
    whole, size, chunks = sha256(), 0, []
    with open_regular(folder / place) as file:
        while chunk := file.read(CHUNK_BYTES):
            whole.update(chunk)
            size += len(chunk)
            chunks.append(sha256(chunk).hexdigest())
    mode = stat.S_IMODE(status.st_mode) & _MAX_MODE
    return SentFile(path=place, size=size, mode=mode, sha256=whole.hexdigest(), chunks=tuple(chunks))


def send(
    connection: psycopg.Connection[Any],
    run_id: UUID,
    folder: Path,
    manifest: Manifest,
    *,
    is_stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Send what the database does not have of a run folder, then its manifest; return how many chunks were sent.

    Each chunk is a transaction of its own: after a failure, or if ``is_stopping``, the next call goes on.  Call it
    again until ``is_sent``, because the controller removes the chunks of an older state.  ``connection`` is in
    autocommit mode.  Raises RecordError if the folder has changed since its manifest was made, and psycopg.Error.
    """
    content = _adapter().dump_json(manifest)
    if len(content) > _MAX_MANIFEST_BYTES:
        raise RecordError(path=folder, reason="it has too many files to be sent", hint="Copy it by hand.")
    missing = manifest.chunks - _present(connection, run_id, manifest.chunks)
    sent = 0
    for file in manifest.files:
        if missing.isdisjoint(file.chunks):
            continue
        for digest, chunk in _chunks(folder, file):
            if is_stopping():
                return sent
            if digest in missing:
                connection.execute(
                    "INSERT INTO lab_chunk (run_id, digest, content) VALUES (%s, %s, %b) ON CONFLICT DO NOTHING",
                    (run_id, digest, chunk),
                )
                missing -= {digest}
                sent += 1
    connection.execute(
        "INSERT INTO lab_upload (run_id, digest, manifest) VALUES (%s, %s, %b) ON CONFLICT DO NOTHING",
        (run_id, sha256(content).hexdigest(), content),
    )
    return sent


def is_sent(connection: psycopg.Connection[Any], run_id: UUID, manifest: Manifest) -> bool:
    """Return whether the database has a manifest and all of its chunks, which the controller can receive."""
    digest = sha256(_adapter().dump_json(manifest)).hexdigest()
    query = "SELECT 1 FROM lab_upload WHERE run_id = %s AND digest = %s"
    if connection.execute(query, (run_id, digest)).fetchone() is None:
        return False
    return _present(connection, run_id, manifest.chunks) == manifest.chunks


def _present(connection: psycopg.Connection[Any], run_id: UUID, digests: frozenset[str]) -> frozenset[str]:
    """Return those of the digests that the database has as chunks of the run."""
    query = "SELECT digest FROM lab_chunk WHERE run_id = %s AND digest = ANY(%s)"
    wanted, found = sorted(digests), set[str]()
    with connection.cursor(row_factory=tuple_row) as cursor:
        for first in range(0, len(wanted), _BATCH):
            rows = cursor.execute(query, (run_id, wanted[first : first + _BATCH]))
            found.update(digest for (digest,) in rows)
    return frozenset(found)


def _chunks(folder: Path, file: SentFile) -> Iterator[tuple[str, bytes]]:
    """Yield the chunks of a file with their digests; raises RecordError if it has changed."""
    try:
        with keep_folder_open(folder), open_regular(folder / file.path) as opened:
            for number, digest in enumerate(file.chunks):
                chunk = opened.read(min(CHUNK_BYTES, file.size - number * CHUNK_BYTES))
                if sha256(chunk).hexdigest() != digest:
                    raise RecordError(path=folder / file.path, reason="it changed while it was sent", hint=_AGAIN_HINT)
                yield digest, chunk
    except OSError as error:
        raise unreadable(folder / file.path, error) from None


# -- receiving --------------------------------------------------------------------------------------------------------


def receive(connection: psycopg.Connection[Any], upload: Upload, destination: Path) -> bool:
    """Receive the folder of an upload; return whether all of it is there yet.

    It is written to a folder beside ``destination``, compared with its digests, written to stable storage and then
    renamed; an older state of the folder is replaced.  A kill leaves the old folder or the new one, after the next
    call.  An upload without files leaves ``destination`` as it is.  Raises UploadRefused for a manifest that no agent
    sends, RecordError if the folder cannot be written, and psycopg.Error.
    """
    manifest = parse_manifest(upload)
    try:
        with keep_folder_open(destination.parent):
            _recover(destination)
            if manifest.chunks - _present(connection, upload.run_id, manifest.chunks):
                return False
            if manifest.files:
                _require_room(destination.parent, manifest)
                try:
                    _write(connection, upload, manifest, _temporary(destination))
                except UploadRefused:
                    _remove(_temporary(destination))
                    raise
                _replace(destination)
    except OSError as error:
        raise RecordError(path=destination, reason=error.strerror or str(error), hint=_SPACE_HINT) from None
    return True


def parse_manifest(upload: Upload) -> Manifest:
    """Return the manifest of an upload; raises UploadRefused for one whose files must not be written."""
    content = upload.manifest
    try:
        if sha256(content).hexdigest() != upload.digest:
            raise ValueError("its SHA-256 is another one")
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object")
    except (ValueError, RecursionError) as error:
        raise _refused(upload, f"its manifest is invalid ({error})") from None
    manifest, mistakes = validate(Manifest, document)
    if manifest is None:
        raise _refused(upload, f"its manifest is invalid ({mistakes[0]})")
    if sum(file.size for file in manifest.files) > _MAX_BYTES:
        raise _refused(upload, f"its files have more than {capacity(_MAX_BYTES)}")
    if problem := next(_problems(manifest), ""):
        raise _refused(upload, problem)
    return manifest


def _problems(manifest: Manifest) -> Iterator[str]:
    """Yield why the files of a manifest must not be written, or could replace each other."""
    files, folders = set[str](), dict[str, str]()
    for file in manifest.files:
        name, parts = f"the file {one_line(file.path)[:_MAX_SHOWN]!r}", file.path.split("/")
        if set(parts) & {"", ".", ".."}:
            yield f"{name} is not in the folder"
        if len(parts) > _MAX_DEPTH or any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
            yield f"{name} has too long a name, or is in too many folders"
        if not file.path.isprintable():
            yield f"{name} has unprintable letters in its name"
        if len(file.chunks) != -(-file.size // CHUNK_BYTES):
            yield f"{name} has not as many chunks as its size requires"
        key = _key(file.path)
        if key in files:
            yield f"{name} is there twice, or differs from another one only in upper and lower case"
        files.add(key)
        for parent in ("/".join(parts[:depth]) for depth in range(1, len(parts))):
            if folders.setdefault(_key(parent), parent) != parent:
                yield f"the folder of {name} differs from another one only in upper and lower case"
    if both := files & folders.keys():
        yield f"{min(both)[:_MAX_SHOWN]!r} is both a file and a folder"


def _key(path: str) -> str:
    """Return what equals that of another path if a file system may take both for one file."""
    return unicodedata.normalize("NFC", path).casefold()


def _refused(upload: Upload, reason: str) -> UploadRefused:
    return UploadRefused(path=str(upload.run_id), reason=reason)


def _require_room(folder: Path, manifest: Manifest) -> None:
    size = sum(file.size for file in manifest.files)
    if size > shutil.disk_usage(folder).free - _RESERVE_BYTES:
        raise OSError(errno.ENOSPC, f"there is not enough space for {capacity(size)}")


def _write(connection: psycopg.Connection[Any], upload: Upload, manifest: Manifest, folder: Path) -> None:
    """Write the files of a manifest to a new folder, on stable storage; raises UploadRefused for another content."""
    make_folder(folder, new=True)
    made = {folder}
    for file in manifest.files:
        path = folder / file.path
        for parent in reversed(path.relative_to(folder).parents[:-1]):
            make_folder(folder / parent)
            made.add(folder / parent)
        whole, size = sha256(), 0
        with create(path) as opened:
            for digest in file.chunks:
                chunk = _chunk(connection, upload, digest)
                whole.update(chunk)
                size += len(chunk)
                opened.write(chunk)
            if (whole.hexdigest(), size) != (file.sha256, file.size):
                raise _refused(upload, f"the file {one_line(file.path)[:_MAX_SHOWN]!r} has another size or SHA-256")
            os.fchmod(opened.fileno(), file.mode & _SAFE_MODE)
            os.fsync(opened.fileno())
    for path in made:
        sync_folder(path)


def _chunk(connection: psycopg.Connection[Any], upload: Upload, digest: str) -> bytes:
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        query = "SELECT content FROM lab_chunk WHERE run_id = %s AND digest = %s"
        row = cursor.execute(query, (upload.run_id, digest)).fetchone()
    chunk = bytes(row[0]) if row else b""
    if sha256(chunk).hexdigest() != digest:
        raise _refused(upload, f"the chunk {digest} has another SHA-256")
    return chunk


def _temporary(destination: Path) -> Path:
    return destination.with_name(f".{destination.name}.receiving")


def _before(destination: Path) -> Path:
    return destination.with_name(f".{destination.name}.before")


def _recover(destination: Path) -> None:
    """Remove what a killed call left beside ``destination``; an older state of the folder is there again."""
    temporary, before = _temporary(destination), _before(destination)
    if before.exists() and not destination.exists():
        rename(before, destination.name)
    for path in (temporary, before):
        _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder with its content, or a symlink in its place."""
    if path.is_symlink():
        remove(path)
    elif path.exists():
        shutil.rmtree(path)


def _replace(destination: Path) -> None:
    """Give the received folder its name; an older one is removed after that."""
    before = _before(destination)
    if os.path.lexists(destination):
        rename(destination, before.name)
    rename(_temporary(destination), destination.name)
    sync_folder(destination.parent)
    _remove(before)
