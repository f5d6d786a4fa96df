"""Starts a process that outlives this one, in a session of its own."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: The exit code of a process whose exit code is not known.
UNKNOWN = 256
#: Reads the order from its standard input, which is not on any disk, and imports as this process does.
_PROGRAM = (
    "import json, pkgutil, sys; order = json.load(sys.stdin); sys.path[:] = order['sys_path']; "
    "pkgutil.resolve_name(sys.argv[1])(order)"
)
#: Signals that must not be ignored in the process, as they may be in this one.
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class DetachedProcess:
    """A process without terminal, which neither Ctrl-C here nor the end of this process ends."""

    def __init__(self, argv: tuple[str, ...], descriptors: Mapping[int, int]) -> None:
        """Start the program ``argv[0]``, a path.

        ``descriptors`` maps the numbers of the program's descriptors to open files; it inherits no others.
        Raises OSError.
        """
        # A number of the program may be the number of an open file here: copies above all numbers prevent a clash.
        copies = {number: _copy(descriptor, max(descriptors)) for number, descriptor in descriptors.items()}
        try:
            actions = [
                *((os.POSIX_SPAWN_DUP2, copy, number) for number, copy in copies.items()),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _inheritable() - descriptors.keys()),
            ]
            self.pid = os.posix_spawn(
                argv[0], argv, os.environ, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS
            )
        finally:
            for copy in copies.values():
                os.close(copy)
        self._handle = os.pidfd_open(self.pid)
        weakref.finalize(self, os.close, self._handle)
        self._exit_code: int | None = None

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the end of the process; return its exit code (negative for a signal), or UNKNOWN.

        Return None if it still runs after the timeout.
        """
        if self._exit_code is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout_seconds is None else 1000 * timeout_seconds):
                return None
            try:
                self._exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:  # this process ignores SIGCHLD, or other code has waited for the child
                self._exit_code = UNKNOWN
        return self._exit_code

    def send(self, number: signal.Signals) -> None:
        """Send a signal; a process that has ended gets none."""
        if self.wait(0) is None:
            signal.pidfd_send_signal(self._handle, number)


def python_program(function: str) -> tuple[str, ...]:
    """Return the command line of a Python that calls ``function`` (``module:name``) with its order (``order_file``)."""
    return (sys.executable, "-P", "-c", _PROGRAM, function)


@contextmanager
def order_file(order: Mapping[str, Any]) -> Iterator[int]:
    """Yield the descriptor of an anonymous file with an order, for the standard input of a ``python_program``."""
    document = {"sys_path": [str(Path(entry).absolute()) for entry in sys.path], **order}
    with os.fdopen(os.memfd_create("order"), "w+b", 0) as file:
        file.write(json.dumps(document).encode())
        file.seek(0)
        yield file.fileno()


def close_order() -> None:
    """Replace the order on standard input, which may have a serial number, by nothing."""
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _inheritable() -> set[int]:
    """Return the descriptors that a program would inherit.

    A pipe among them would stay open until the program ends, so that its reader gets no EOF before.
    """
    inheritable = set[int]()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of the folder itself is closed by now
            if os.get_inheritable(int(entry.name)):
                inheritable.add(int(entry.name))
    return inheritable


def _copy(descriptor: int, above: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above + 1)
