"""Opens files that others name: regular ones, and nothing to wait at or without an end; and replaces files whole."""

from __future__ import annotations

import errno
import os
import secrets
import shlex
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path, most_bytes: int | None = None) -> BufferedReader:
    """Open a regular file of at most ``most_bytes`` for reading; raises OSError, also for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if most_bytes is not None and status.st_size > most_bytes:
            raise _too_large(most_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return what a regular file holds, at most ``most_bytes``; raises OSError for anything else."""
    with open_regular(path, most_bytes) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # it grew, or its size was told wrong
        raise _too_large(most_bytes)
    return content


def _too_large(most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes")


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write ``content`` so that a crash leaves the old file or the new one, never half of it.

    What is not ``durable`` is whole as well, but a crash of the host may take it.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def pasted(path: Path) -> str:
    """Return a path as a command in a shell takes it, whatever it is called."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
