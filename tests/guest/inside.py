"""Runs in the guest, as its only program: does the runs it finds in a folder, and switches the machine off.

A run is one command line of snia-pts; its output and exit code go to a folder of its name.  What all of them need is
imported once: the emulated processor is slow.  A run may have an array: a file of these is written for it, and what is
left of arrays after it is noted.
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


def arrays(members: list[str]) -> str:
    """Return the arrays that there are, by name, and the members that have a superblock, by serial number."""
    states = {each.parents[1].name: each.read_text().strip() for each in Path("/sys/block").glob("md*/md/array_state")}
    standing = sorted(name for name, state in states.items() if state != "clear")  # which a name without an array has
    marked = [
        serial
        for serial in members
        if subprocess.run(["mdadm", "--examine", device(serial)], capture_output=True, check=False).returncode == 0
    ]
    return json.dumps({"standing": standing, "marked": marked})


def prepared(run: dict[str, Any], place: Path) -> list[str]:
    """Return the command line of a run, once what it needs is there."""
    members = {serial: str(device(serial)) for serial in run.get("members", ())}
    for command in run.get("before", ()):
        subprocess.run([members.get(word, word) for word in command], check=True)
    if run.get("array"):
        (place / "array.toml").write_text(f"members = {json.dumps(list(members.values()))}\n{run['array']}")
    path = f"array:{place}/array.toml" if members else str(device(run["serial"]))
    argv = [path if word == "DEVICE" else word for word in run["argv"]]
    return argv if argv[0] == "resume" else [*argv, "--run-dir", str(place / "run")]


def perform(run: dict[str, Any], folder: Path) -> None:
    """Do a run in a process of its own, until its journal holds a text if one is given, and keep its exit code."""
    place = folder / run["name"]
    place.mkdir()
    argv = prepared(run, place)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(place / name, os.O_CREAT | os.O_WRONLY), number)
            from snia_pts.cli.main import main

            sys.argv = ["snia-pts", *argv]
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
            os.kill(child, signal.SIGKILL if run.get("killed") else signal.SIGTERM)
            until = ""
        time.sleep(0.2)
    status = os.waitpid(child, 0)[1]
    if run.get("members"):
        (place / "arrays").write_text(arrays(run["members"]))
    with suppress(LookupError):
        (place / "cache").write_text(cache(device(run["serial"])))
    (place / "code").write_text(str(os.waitstatus_to_exitcode(status)))


def main() -> None:
    """Do the runs: those without a report, those on arrays last, beside those with one."""
    folder = Path(sys.argv[1])
    os.chdir(os.environ["HOME"])
    sys.path.insert(0, str(Path(__file__).parents[2]))
    runs = json.loads((folder / "runs.json").read_text())
    import snia_pts.cli.running

    beside = os.fork()
    if beside == 0:
        for run in sorted(runs, key=lambda run: bool(run.get("members"))):
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
