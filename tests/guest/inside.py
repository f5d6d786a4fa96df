"""Runs as the only program of the guest: performs the runs that it finds in a folder, and switches the machine off.

A run is one command line of snia-pts; its output and exit code go to a folder of its name. Modules that all runs need
are imported once, because the emulated processor is slow. A run may have an array: its file is written, and the arrays
left after it are recorded. The runs of one lane are performed one after the other, the lanes side by side.

The console shows when each run started and ended, in seconds since boot.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

_RESTART, _NEW_MOUNTS = 0x01234567, 0x00020000
_LIBC = ctypes.CDLL(None, use_errno=True)
#: Loop devices on files in memory, by name, and their size.
_LOOPS, _LOOP_BYTES = ("loop0", "loop1", "loop2", "loop3"), 16 << 20


def tell(words: str) -> None:
    """Print to the console how the time is spent."""
    print(f"{time.monotonic():7.1f} s  {words}", flush=True)


def device(serial: str) -> Path:
    """Return the disk with a serial number, as the kernel reports it; a loop device has none, and is found by name."""
    if serial in _LOOPS:
        return Path("/dev", serial)
    for block in sorted(Path("/sys/block").iterdir()):
        for name in ("device/serial", "serial", "device/vpd_pg80"):
            try:
                data = (block / name).read_bytes()
            except OSError:
                continue
            if data.strip(b"\0 \n").endswith(serial.encode()):
                return Path("/dev") / block.name
    raise LookupError(serial)


def cache(disk: Path) -> str:
    """Return the write cache state of a disk as reported by the kernel, or by the drive itself if it is NVMe."""
    if disk.name.startswith("nvme"):
        command = ["nvme", "get-feature", str(disk), "-f", "6"]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return str(text).rpartition(":")[2].strip()
    files = Path("/sys/block", disk.name).glob("device/scsi_disk/*/cache_type")
    return "".join(file.read_text().strip() for file in files)


def arrays(members: list[str]) -> str:
    """Return the arrays that there are, by name, and the members that have a superblock, by serial number."""
    states = {path.parents[1].name: path.read_text().strip() for path in Path("/sys/block").glob("md*/md/array_state")}
    assembled = sorted(name for name, state in states.items() if state != "clear")  # which a name without an array has
    marked = [
        serial
        for serial in members
        if subprocess.run(["mdadm", "--examine", device(serial)], capture_output=True, check=False).returncode == 0
    ]
    return json.dumps({"assembled": assembled, "marked": marked})


def make_loops() -> None:
    """Give every loop device a separate file in memory."""
    for name in _LOOPS:
        file = Path("/run", name)
        file.touch()
        os.truncate(file, _LOOP_BYTES)
        subprocess.run(["losetup", f"/dev/{name}", file], check=True)


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
    """Perform a run in a separate process, until its journal contains a given text, if any, and store its exit code."""
    place = folder / run["name"]
    place.mkdir()
    tell(f"{run['name']} begins")
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
    elif run["serial"]:
        with suppress(LookupError):
            (place / "cache").write_text(cache(device(run["serial"])))
    (place / "code").write_text(str(os.waitstatus_to_exitcode(status)))
    tell(f"{run['name']} ended")


def lane(runs: list[dict[str, Any]], folder: Path) -> int:
    """Perform runs in a separate process, with a separate state directory; return its number."""
    child = os.fork()
    if child == 0:
        try:
            notes = Path("/var/lib/snia-pts")
            notes.mkdir(exist_ok=True)
            if _LIBC.unshare(_NEW_MOUNTS) or _LIBC.mount(b"notes", bytes(notes), b"tmpfs", 0, b"mode=0700"):
                raise OSError(ctypes.get_errno(), "no mounts of its own")
            for run in runs:
                perform(run, folder)
        except BaseException:  # noqa: BLE001 - a child that does not end would do its parent's work
            traceback.print_exc()
        finally:
            os._exit(0)
    return child


def preload() -> None:
    """Import what the runs need, and make a plan of each test, which reads the specification and builds its checks."""
    from snia_pts.cli.commands import resume  # noqa: F401 - imported for the runs
    from snia_pts.cli.main import main as snia_pts
    from snia_pts.cli.text import result  # noqa: F401 - imported for the runs
    from snia_pts.record.entries import adapter

    adapter()
    for test in ("iops", "wsat"):
        with redirect_stdout(io.StringIO()):
            assert snia_pts([test, "drive.img", "--size", "64M", "--plan"]) == 0
    gc.freeze()


def main() -> None:
    """Do all runs, once what they need is there."""
    folder = Path(sys.argv[1])
    os.chdir(os.environ["HOME"])
    sys.path.insert(0, str(Path(__file__).parents[2]))
    runs = json.loads((folder / "runs.json").read_text())
    tell("booted")
    make_loops()
    preload()
    tell("imported")
    lanes = dict.fromkeys(run["lane"] for run in runs)
    for child in [lane([run for run in runs if run["lane"] == name], folder) for name in lanes]:
        os.waitpid(child, 0)
    tell("all done")


try:
    main()
except BaseException:  # noqa: BLE001 - whatever it is, the machine has to go off
    traceback.print_exc()
os.sync()
_LIBC.reboot(_RESTART)
