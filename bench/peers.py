"""Other tools that test drives, run by ``bench/gap.py`` for comparison, and their resource usage."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The shortest time of a point that CloudHarmony's program accepts.
CLOUDHARMONY_SECONDS = 10
SAMPLE_SECONDS = 0.5
MIB = 1024.0  # of the kernel's kB


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The resource usage of a process so far, without its children.

    CPU time in seconds at a time of the monotonic clock, and memory in MiB: peak resident, proportional and unique set
    size.
    """

    at: float
    cpu_seconds: float
    peak_mib: float
    shared_mib: float
    own_mib: float


def readings(process: subprocess.Popen[bytes], limit_seconds: float) -> Iterator[Reading]:
    """Read the usage of a process until it ends; kill its session on timeout."""
    until = time.monotonic() + limit_seconds
    while process.poll() is None:
        if time.monotonic() > until:
            end(process)
            return
        try:
            yield read(Path("/proc") / str(process.pid))
        except OSError:  # it has ended
            process.wait()
            return
        time.sleep(SAMPLE_SECONDS)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its whole session, because children of timeout have a separate process group."""
    process.kill()
    process.wait()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            if int(stat.read_text().rpartition(")")[2].split()[3]) == process.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)


def read(process: Path) -> Reading:
    """Read the usage of the process of a folder of /proc; raises OSError if it has ended."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    sizes = _sizes(process / "smaps_rollup")
    return Reading(
        at=time.monotonic(),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        peak_mib=_sizes(process / "status")["VmHWM"] / MIB,
        shared_mib=sizes["Pss"] / MIB,
        own_mib=(sizes["Private_Clean"] + sizes["Private_Dirty"]) / MIB,
    )


def _sizes(file: Path) -> Mapping[str, int]:
    """Return the sizes in kB of a file of /proc, by name."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0].removesuffix(":"): int(words[1]) for words in lines if words[-1] == "kB"}


def started(argv: Sequence[str | Path], folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a program in ``folder``, in a new session, without standard input."""
    return subprocess.Popen(
        list(map(str, argv)),
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def tkperf(device: str, seconds: float, checkout: Path, python: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Run TKperf's IOPS test."""
    argv: list[str | Path] = [
        python,
        checkout / "scripts" / "tkperf",
        "ssd",
        "gap",
        device,
        "-rt",
        str(max(1, round(seconds))),
        "-nj",
        "4",
        "-iod",
        "32",
        "-ft",
        "-ssdt",
        "iops",
    ]
    return started(argv, folder, PYTHONPATH=str(checkout / "src"), MPLBACKEND="agg")


def cloudharmony(device: str, seconds: float, checkout: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Run the IOPS test of CloudHarmony's block-storage without purge and preconditioning, as its run.sh does.

    It requires points of at least ten seconds; for shorter ones its fio is a shell script that executes fio with
    another time.
    """
    fio, output = folder / "fio", folder / "cloudharmony"
    output.mkdir(exist_ok=True)
    fio.write_text(f'#!/bin/sh\nexec fio "$@" --runtime={max(1, round(seconds))}\n')
    fio.chmod(0o755)
    argv: list[str | Path] = [
        "php",
        checkout / "lib" / "run.php",
        f"--target={device}",
        "--test=iops",
        "--nopurge",
        "--noprecondition",
        "--noreport",
        "--threads=4",
        "--oio_per_thread=32",
        f"--output={output}",
        f"--fio={fio}",
        f"--wd_test_duration={max(CLOUDHARMONY_SECONDS, round(seconds))}",
    ]
    return started(argv, folder)
