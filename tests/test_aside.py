"""A part of the work in a second process: what comes back, what fails, and that nothing of it is left."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from snia_pts.aside import aside
from snia_pts.errors import ReportError
from tests.operating import ROOT


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors, and no thread but this: tests that run side by side have threads that listen to each other."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def who() -> list[bytes]:
    """Say which process does the work."""
    return [b"%d" % os.getpid()]


def children() -> list[int]:
    """Return the processes that this one has begun."""
    found = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return [int(number) for number in found.split()]


def test_another_process_works() -> None:
    """What comes back was made elsewhere, the same each time it is asked for, and nobody is left."""
    with aside(who) as brought:
        first = brought()
        again = brought()

    assert first is again
    assert first != who()
    assert children() == []


@pytest.mark.parametrize("sizes", [(0,), (0, 1, 0), (10, 3_000_000, 7)])
def test_all_comes_back(sizes: tuple[int, ...]) -> None:
    """Bytes come back as they were, none or many, with ends of lines in them."""
    made = [(b"\n\0[1]" * size)[:size] for size in sizes]

    with aside(lambda: made) as brought:
        assert brought() == made


def test_what_fails_there_fails_here() -> None:
    """A failure is told as if there were but one process: with its own class and words."""

    def fails() -> list[bytes]:
        raise ReportError(reason="a figure cannot be drawn")

    with aside(fails) as brought, pytest.raises(ReportError, match="a figure cannot be drawn"):
        brought()


def test_what_dies_there_is_done_here() -> None:
    """A second process that is killed, as where memory is short, costs time and nothing else."""
    here = os.getpid()

    def dies() -> list[bytes]:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return who()

    with aside(dies) as brought:
        assert brought() == who()


def _no_fork() -> int:
    raise BlockingIOError("Resource temporarily unavailable")


@pytest.mark.parametrize("lacking", ["a process", "descriptors", "a processor", "a single thread"])
def test_one_process_does_all_where_two_cannot_be(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for a second process, for a processor of its own, or other threads run, there is none."""
    if lacking == "a process":
        monkeypatch.setattr(os, "fork", _no_fork)
    if lacking == "descriptors":
        monkeypatch.setattr(socket, "socketpair", _no_fork)
    if lacking == "a processor":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    if lacking == "a single thread":
        monkeypatch.setattr(threading, "active_count", lambda: 2)

    with aside(who) as brought:
        assert brought() == who()


def test_nobody_works_for_nobody() -> None:
    """What nobody asks for any more is ended with all that it does."""

    def idles() -> list[bytes]:
        time.sleep(600)
        return []

    began = time.monotonic()
    with suppress(KeyboardInterrupt), aside(idles):
        assert len(children()) == 1
        raise KeyboardInterrupt

    assert children() == []
    assert time.monotonic() - began < 300


def test_what_it_holds_is_let_go(tmp_path: Path) -> None:
    """Ended in the midst of its work, it still removes what its libraries hold meanwhile, as a lock on a file."""
    lock = tmp_path / "lock"

    def holds() -> list[bytes]:
        try:
            lock.touch()
            time.sleep(600)
        finally:
            lock.unlink()
        return []

    with suppress(KeyboardInterrupt), aside(holds):
        while not lock.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    assert not lock.exists()


def test_what_is_left_to_the_end_is_done(tmp_path: Path) -> None:
    """What its libraries clear away at the end of a process is gone when it has brought its part; ours stays."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.touch()
    atexit.register(ours.unlink)

    def leaves() -> list[bytes]:
        theirs.touch()
        atexit.register(theirs.unlink)
        return who()

    try:
        with aside(leaves) as brought:
            assert brought() != who()
    finally:
        atexit.unregister(ours.unlink)

    assert (ours.exists(), theirs.exists()) == (True, False)


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    """A process that has a second one working, whose number it tells."""
    text = (
        "import os, signal, time\nfrom snia_pts.aside import aside\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\nos.sched_getaffinity = lambda _: {0, 1}\n"
        "def work():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n    return []\n"
        "with aside(work) as brought:\n    brought()\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_first(program: subprocess.Popen[str], how: signal.Signals) -> None:
    """However the first process ends, the second is gone soon after: its output, which it held open, is closed."""
    assert program.stdout
    assert int(program.stdout.readline()) != program.pid
    program.send_signal(how)

    assert program.stdout.read() == ""
    assert program.wait() == -how


def test_a_stop_is_for_the_first(program: subprocess.Popen[str]) -> None:
    """Ctrl-C reaches both processes, and the second says nothing of it: the first tells, and ends it."""
    assert program.stdout
    second = int(program.stdout.readline())
    os.kill(second, signal.SIGINT)
    os.kill(second, signal.SIGHUP)
    time.sleep(0.3)
    assert Path(f"/proc/{second}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    program.send_signal(signal.SIGINT)

    assert program.stdout.read() == ""
    assert program.wait() == -signal.SIGINT
