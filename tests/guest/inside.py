"""Runs in the guest, as its only program: does the runs it finds in a folder, and switches the machine off.

A run is one command line of snia-pts; its output and exit code go to a folder of its name.  What all of them need is
imported once: the emulated processor is slow.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

_RESTART = 0x01234567


def device(serial: str) -> Path:
    """Return the disk with a serial number, as the kernel tells it."""
    for block in sorted(Path("/sys/block").iterdir()):
        for name in ("device/serial", "serial", "device/vpd_pg80"):
            try:
                found = (block / name).read_bytes()
            except OSError:
                continue
            if found.strip(b"\0 \n").endswith(serial.encode()):
                return Path("/dev") / block.name
    raise LookupError(serial)


def cache(disk: Path) -> str:
    """Return what the kernel, or of an NVMe drive the drive, says of a disk's write cache."""
    if disk.name.startswith("nvme"):
        command = ["nvme", "get-feature", str(disk), "-f", "6"]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return str(said).rpartition(":")[2].strip()
    files = Path("/sys/block", disk.name).glob("device/scsi_disk/*/cache_type")
    return "".join(each.read_text().strip() for each in files)


def perform(run: dict[str, Any], folder: Path) -> None:
    """Do a run in a process of its own, until its journal holds a text if one is given, and keep its exit code."""
    place = folder / run["name"]
    place.mkdir()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(place / name, os.O_CREAT | os.O_WRONLY), number)
            from snia_pts.cli.main import main

            path = str(device(run["serial"]))
            arguments = [path if word == "DEVICE" else word for word in run["argv"]]
            sys.argv = ["snia-pts", *arguments, "--run-dir", str(place / "run")]
            code = main(sys.argv[1:])
        except BaseException:  # noqa: BLE001 - a child that does not end would do its parent's work
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    journal, until = place / "run/journal.jsonl", run["until"]
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if until and journal.is_file() and until in journal.read_text():
            os.kill(child, signal.SIGTERM)
            until = ""
        time.sleep(0.2)
    status = os.waitpid(child, 0)[1]
    with suppress(LookupError):
        (place / "cache").write_text(cache(device(run["serial"])))
    (place / "code").write_text(str(os.waitstatus_to_exitcode(status)))


def main() -> None:
    """Do the runs: those without a report beside those with one."""
    folder = Path(sys.argv[1])
    os.chdir(os.environ["HOME"])
    sys.path.insert(0, str(Path(__file__).parents[2]))
    runs = json.loads((folder / "runs.json").read_text())
    import snia_pts.cli.running

    beside = os.fork()
    if beside == 0:
        for run in runs:
            if not run["reports"]:
                perform(run, folder)
        os._exit(0)
    import snia_pts.report.building
    import snia_pts.report.writing  # noqa: F401

    for run in runs:
        if run["reports"]:
            perform(run, folder)
    os.waitpid(beside, 0)


try:
    main()
except BaseException:  # noqa: BLE001 - whatever it is, the machine has to go off
    traceback.print_exc()
os.sync()
ctypes.CDLL(None).reboot(_RESTART)
