"""Descriptors that a program inherits, so that it opens exactly the files that the suite holds open."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

DESCRIPTORS = "/proc/self/fd/"
#: Shells redirect lower descriptors; StagedProgram uses 3.
_MIN_DESCRIPTOR = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedFiles:
    """Open files for a program, by the names that its command uses, and environment variables for it.

    If an argument of the command, or the value of a variable, is a key of ``files`` or ends with ``=`` and a key, the
    key is replaced by the name of the descriptor.  A key in braces is replaced wherever it occurs.

    The program also inherits the descriptors ``claims`` with their locks and exclusive opens, which the kernel releases
    when both the suite and the program have ended.  When the suite dies, such a program gets SIGTERM instead of
    SIGKILL: its requests to io_uring would outlive its descriptors.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    claims: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def duplicate(files: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Duplicate descriptors for a program, by name, without the locks and exclusive opens of the originals."""
    names: dict[str, int] = {}
    with ExitStack() as cleanup:
        for name, number in files.items():
            descriptor = os.open(f"{DESCRIPTORS}{number}", os.O_PATH | os.O_CLOEXEC)
            try:
                names[name] = _duplicate(descriptor, cleanup)
            finally:
                os.close(descriptor)
        yield names


@contextmanager
def duplicate_claims(claims: Iterable[int]) -> Iterator[list[int]]:
    """Duplicate descriptors for a program with the locks and exclusive opens of the originals."""
    with ExitStack() as cleanup:
        yield [_duplicate(descriptor, cleanup) for descriptor in claims]


def _duplicate(descriptor: int, cleanup: ExitStack) -> int:
    """Duplicate a descriptor, to a number that no shell redirects, until ``cleanup`` is closed."""
    number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _MIN_DESCRIPTOR)
    cleanup.callback(os.close, number)
    return number


def substitute(argument: str, descriptors: Mapping[str, int]) -> str:
    """Return an argument of a command with the file's name in it replaced by the name of its descriptor."""
    for name, number in descriptors.items():
        if name.startswith("{"):
            argument = argument.replace(name, f"{DESCRIPTORS}{number}")
        elif argument == name or argument.endswith(f"={name}"):
            return f"{argument.removesuffix(name)}{DESCRIPTORS}{number}"
    return argument
