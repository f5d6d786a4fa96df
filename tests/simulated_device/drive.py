"""The test's side of a simulated drive: starts it, makes a device of it, breaks it, asks it, and clears it away."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.drives import need_root

from . import fuse
from .oracle import Io, Seen, read_ios, read_log

ROOT = Path(__file__).parents[2]
_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDrive:
    """A drive that runs: ``path`` is its socket or its block device."""

    path: Path
    _server: subprocess.Popen[str]
    _log: Path

    def tell(self) -> Seen:
        """Return what the drive has seen since it was made."""
        counts = self._obey("tell")
        return Seen(ios=counts["ios"], bytes=counts["bytes"])

    def write_amplification(self) -> float:
        """Return what the drive programs for each byte written, now."""
        return float(self._obey("tell")["write_amplification"])

    def seen(self, began: float, ended: float) -> Seen:
        """Return what the drive saw between two times of the monotonic clock in seconds; see ``read_log``."""
        self.tell()
        return read_log(self._log, began, ended)

    def ios(self, began: float, ended: float) -> list[Io]:
        """Return each request that arrived between two times of the monotonic clock in seconds."""
        self.tell()
        return list(read_ios(self._log, began, ended))

    def fail_after(self, count: int) -> None:
        """Let every read and write fail with EIO after so many more."""
        self._obey(f"fail-after {count}")

    def hang_after(self, count: int) -> None:
        """Leave every read and write without an answer after so many more."""
        self._obey(f"hang-after {count}")

    def vanish(self) -> None:
        """Disappear: all further I/O fails."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(_SECONDS)

    def heal(self) -> None:
        """End all faults; what hung is answered."""
        self._obey("heal")

    def _obey(self, command: str) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(command + "\n")
        self._server.stdin.flush()
        document: dict[str, Any] = json.loads(self._server.stdout.readline())
        return document


@contextmanager
def nbd_drive(folder: Path) -> Iterator[SimulatedDrive]:
    """A drive on the socket ``folder``/drive.sock; needs no root."""
    path = folder / "drive.sock"
    with _served("nbd", path, folder / "oracle.jsonl") as server:
        yield SimulatedDrive(path=path, _server=server, _log=folder / "oracle.jsonl")


@contextmanager
def loop_drive(folder: Path) -> Iterator[SimulatedDrive]:
    """Return a drive as a loop device; skips the test without FUSE or loop devices."""
    need_root()
    mount = folder / "mount"
    mount.mkdir()
    with _served("fuse", mount, folder / "oracle.jsonl") as server:
        command = ["losetup", "--find", "--show", "--direct-io=on", str(mount / fuse.NAME)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        if made.returncode:
            pytest.skip(f"no loop devices here: {made.stderr.strip()}")
        drive = SimulatedDrive(path=Path(made.stdout.strip()), _server=server, _log=folder / "oracle.jsonl")
        try:
            yield drive
        finally:
            with suppress(OSError, ValueError):  # one that has ended hangs no more
                drive.heal()
            subprocess.run(["losetup", "--detach", drive.path], check=True, timeout=_SECONDS)
            if server.poll() is not None:  # which would have unmounted
                subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True, timeout=_SECONDS)


@contextmanager
def _served(kind: Literal["nbd", "fuse"], where: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that is ready; it ends, and unmounts, when its standard input does."""
    command = [sys.executable, "-m", "tests.simulated_device.server", kind, str(where), str(log)]
    # In a separate process session it survives Ctrl-C, until the device on it is removed.
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            text = server.stdout.readline().strip()
            if text != "ready":
                assert text, "the simulated drive did not start"
                pytest.skip(f"no drive over {kind} here: {text}")
            yield server
        finally:
            with suppress(BrokenPipeError):  # it has ended
                server.stdin.close()
            try:
                server.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
    assert server.returncode == 0
