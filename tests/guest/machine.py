"""A virtual machine with common drives (NVMe, SATA, SCSI), and with drives that fail.

QEMU emulates the processor, so it runs wherever QEMU does, without /dev/kvm and without root.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.guest.image import Unavailable, cached_image

_QEMU = "qemu-system-x86_64"
_NEEDED = {
    _QEMU: "qemu-system-x86",
    "nvme": "nvme-cli",
    "hdparm": "hdparm",
    "sg_format": "sg3-utils",
    "mdadm": "mdadm",
    "fio": "fio",
}


@dataclass(frozen=True, kw_only=True)
class Drive:
    """A drive of a machine: its serial number, image and QEMU options, in which ``{node}`` stands for its content."""

    serial: str
    size_bytes: int
    devices: tuple[str, ...]
    #: Around the content, in QEMU's words.
    driver: dict[str, Any] = field(default_factory=dict)


class TooSlow(Exception):
    """The machine did not come so far in the time that it was given."""


class Machine:
    """A machine that performs a list of runs with ``inside.py``, and leaves their output in ``folder``.

    ``slow`` is the reason if not all of them were performed.
    """

    def __init__(self, folder: Path, drives: Sequence[Drive]) -> None:
        self.folder = folder / "guest"
        self.folder.mkdir()
        self._images = folder
        self._drives = drives
        self._process: subprocess.Popen[bytes] | None = None
        self.slow = ""

    def image(self, serial: str) -> Path:
        """Return the file of a drive's content."""
        return self._images / f"{serial}.img"

    @contextmanager
    def running(self, runs: Sequence[dict[str, Any]]) -> Iterator[None]:
        """Boot the machine, and start the runs; the machine ends with the block."""
        kernel, initramfs = cached_image()
        (self.folder / "runs.json").write_text(json.dumps(list(runs)))
        (self.folder / "start").write_text(_START.format(python=sys.executable, inside=Path(__file__).parent))
        _lend_fonts(self.folder / "fonts")
        console = (self._images / "console.log").open("wb")
        with console:
            self._process = subprocess.Popen(
                [*self._command(kernel, initramfs)], stdin=subprocess.DEVNULL, stdout=console, stderr=console
            )
            try:
                yield
            finally:
                self._process.kill()
                self._process.wait()

    def wait(self, end: float, path: Path | None = None, text: str = "") -> None:
        """Wait until the machine is off, or until a file of its folder holds a text; raises TooSlow at ``end``."""
        while True:
            over = self._process is None or self._process.poll() is not None
            if path is None and over:
                return
            if path is not None and path.is_file() and text in path.read_text(errors="replace"):
                return
            last = (self._images / "console.log").read_text(errors="replace")[-2000:]
            if over:
                raise AssertionError(f"it is off, waiting for {path}: {last}")
            if time.monotonic() > end:
                raise TooSlow(f"the machine is too slow for {path.name if path else 'its end'}")
            time.sleep(0.1)

    def remove(self, serial: str) -> None:
        """Pull a drive out."""
        self._ask("device_del", id=serial)

    def _ask(self, command: str, **arguments: str) -> None:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self._images / "qmp"))
            with line.makefile("rw") as talk:
                talk.readline()
                for item in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                    talk.write(json.dumps(item) + "\n")
                    talk.flush()
                    answer = json.loads(talk.readline())
                    assert "error" not in answer, answer

    def _command(self, kernel: Path, initramfs: Path) -> Iterator[str]:
        yield from (_QEMU, "-M", "pc", "-accel", os.environ.get("SNIA_PTS_GUEST_ACCEL", "tcg,thread=multi"))
        yield from ("-cpu", "max", "-smp", "2", "-m", "2048", "-display", "none", "-vga", "none", "-nic", "none")
        yield from ("-serial", "stdio", "-no-reboot", "-qmp", f"unix:{self._images / 'qmp'},server=on,wait=off")
        yield from ("-kernel", str(kernel), "-initrd", str(initramfs))
        yield from ("-append", "console=ttyS0 panic=-1 quiet mitigations=off")
        for name, path, more in (("host", "/", ",readonly=on"), ("guest", str(self.folder), "")):
            yield from ("-fsdev", f"local,id={name},path={path},security_model=none,multidevs=remap{more}")
            yield from ("-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}")
        yield from ("-device", "ich9-ahci,id=sata", "-device", "virtio-scsi-pci,id=scsi")
        for drive in self._drives:
            with self.image(drive.serial).open("ab") as file:
                file.truncate(drive.size_bytes)
            content: dict[str, Any] = {
                "driver": "file",
                "filename": str(self.image(drive.serial)),
                "discard": "unmap",
            }
            if drive.driver:
                content = {**drive.driver, "image": content}
            node = {"driver": "raw", "node-name": f"node-{drive.serial}", "discard": "unmap", "file": content}
            yield from ("-blockdev", json.dumps(node))
            for device in drive.devices:
                yield from ("-device", device.format(node=f"node-{drive.serial}", serial=drive.serial))


_START = """
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp MPLCONFIGDIR=/run/guest/fonts
exec {python} {inside}/inside.py /run/guest
"""


def _lend_fonts(folder: Path) -> None:
    """Give a machine the host's list of fonts, which takes long to make."""
    import matplotlib

    folder.mkdir()
    for known in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copy(known, folder)


def why_not() -> str:
    """Say why there can be no machine here; nothing if there can be one."""
    if os.environ.get("SNIA_PTS_GUEST") == "0":
        return "SNIA_PTS_GUEST=0"
    missing = sorted({package for program, package in _NEEDED.items() if not _found(program)})
    if missing:
        return f"needs {', '.join(missing)} (apt install {' '.join(missing)})"
    try:
        cached_image()
    except Unavailable as reason:
        return f"no kernel for a guest: {reason}"
    return ""


def _found(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is not None
