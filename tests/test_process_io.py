"""The I/O of other processes: from a fake /proc to the byte, and of a real program beside a point."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.analysis.disturbances import disturbances
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.observation.process_io import ProcessObserver
from snia_pts.lab.observation.telemetry import underlying_device
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Stimulus
from snia_pts.model.telemetry import ProcessIo
from snia_pts.units import MB
from tests.drives import MIB
from tests.strategies import block_statistics, measurement, stimulus, transfers, vitals

SUITE = "100"
THREAD_TIME = "snia_pts.lab.observation.process_io.time.thread_time_ns"


class Host:
    """A fake /proc, and a clock that goes on by a second with each reading."""

    def __init__(self, root: Path) -> None:
        self.root, self.now_ns = root, 10**12
        self.process(SUITE, "snia-pts")
        (root / "proc/self").symlink_to(SUITE)

    def process(self, pid: str, name: str, read: int = 0, written: int = 0, parent: str = "1") -> None:
        folder = self.root / "proc" / pid
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")
        (folder / "io").write_text(
            f"rchar: 9\nwchar: 9\nsyscr: 9\nsyscw: 9\nread_bytes: {read}\nwrite_bytes: {written}\n"
            "cancelled_write_bytes: 0\n"
        )

    def end(self, pid: str) -> None:
        for file in (self.root / "proc" / pid).iterdir():
            file.unlink()
        (self.root / "proc" / pid).rmdir()

    def clock(self) -> int:
        return self.now_ns


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr("snia_pts.lab.observation.process_io.time.monotonic_ns", found.clock)
    monkeypatch.setattr(THREAD_TIME, lambda: 0)
    return found


def tick(host: Host, observer: ProcessObserver) -> dict[str, tuple[int, int]]:
    """Return the bytes read and written since the last tick, by process."""
    host.now_ns += 10**9
    return {item.name: (item.read_bytes, item.written_bytes) for item in observer.tick()}


def started(host: Host) -> ProcessObserver:
    observer = ProcessObserver(host.root)
    observer.start()
    tick(host, observer)
    return observer


def test_the_io_of_others_is_the_increase_of_their_counts(host: Host) -> None:
    """What was counted before the first reading does not belong to the point; a new process counts in full."""
    host.process("200", "rsync", 5000, 7000)
    host.process("201", "idle", 9, 9)
    observer = started(host)
    host.process("200", "rsync", 6000, 9000)
    host.process("202", "dd (x) 1", 0, 4096)

    assert tick(host, observer) == {"rsync": (1000, 2000), "dd (x) 1": (0, 4096)}
    assert tick(host, observer) == {}


def test_the_suite_and_its_children_are_not_others(host: Host) -> None:
    """fio is a child of the suite; a child of fio would be, too."""
    observer = started(host)
    host.process(SUITE, "snia-pts", 10**9, 10**9)
    host.process("300", "fio", 10**9, 10**9, parent=SUITE)
    host.process("301", "fio", 10**9, 10**9, parent="300")

    assert tick(host, observer) == {}


def test_threads_of_the_kernel_have_brackets(host: Host) -> None:
    """As ps shows them: a resynchronization of an array is I/O of such a thread."""
    observer = started(host)
    host.process("2", "kthreadd")
    host.process("50", "md0_resync", 4096, 0, parent="2")

    assert tick(host, observer) == {"[md0_resync]": (4096, 0)}


def test_an_ended_process_is_not_counted_again_for_its_parent(host: Host) -> None:
    """The kernel adds its counts to the closest ancestor that waits for it; the last I/O is counted for that one."""
    host.process("400", "bash", 10, 10)
    host.process("401", "make", 20, 20, parent="400")
    host.process("402", "cp", 10**9, 10**9, parent="401")
    observer = started(host)
    host.process("402", "cp", 2 * 10**9, 10**9, parent="401")
    assert tick(host, observer) == {"cp": (10**9, 0)}
    host.end("402")
    host.end("401")
    host.process("400", "bash", 10 + 20 + 2 * 10**9 + 512, 10 + 20 + 10**9)

    assert tick(host, observer) == {"bash": (512, 0)}


def test_a_point_has_its_own_sums_of_those_with_the_most_io(host: Host) -> None:
    """The five with the most, each with a megabyte or more; a point without a reading tells nothing."""
    for number in range(8):
        host.process(f"{500 + number}", f"p{number}")
    observer = started(host)
    for turn in (1, 2):
        for number in range(8):
            host.process(f"{500 + number}", f"p{number}", turn * number * 400_000, 0)
        tick(host, observer)
    processes, unreadable = observer.finish()

    assert [(item.name, item.bytes) for item in processes] == [(f"p{n}", n * 800_000) for n in (7, 6, 5, 4, 3)]
    assert unreadable == 0
    observer.start()
    assert observer.finish() == ((), None)
    host.process("500", "p0", 10**9, 0)
    assert tick(host, observer) == {}  # it may be I/O of the time before the point


def test_readings_wait_until_they_are_due_and_spare_the_end_of_a_point(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading of 10 ms CPU time comes every 2 s; none comes in the last half second."""
    cpu: Iterator[int] = iter(range(0, 10**9, 10**7))
    monkeypatch.setattr(THREAD_TIME, lambda: next(cpu))
    observer = ProcessObserver(host.root)
    observer.start(host.now_ns + 5.4e9)
    read = []
    for _ in range(6):
        host.process("600", "x", written=host.now_ns)
        read.append(bool(tick(host, observer)))

    assert read == [False, False, True, False, False, False]  # the baseline after 1 s; 3 s; 5 s is too late


def test_processes_of_others_are_counted_as_unreadable(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may read the accounting of his own processes only."""
    host.process("700", "sshd")

    def refuse(path: Any, *words: Any) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("snia_pts.lab.observation.process_io.os.open", refuse)
    observer = started(host)

    assert observer.finish() == ((), 2)


@pytest.mark.long
def test_a_real_program_is_named_with_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's accounting of a writer beside a point on a file; the lines of the file add up to the telemetry."""
    if underlying_device(tmp_path) is None:
        pytest.skip("the temporary folder is on no disk (tmpfs): the kernel does not count writes to it")
    monkeypatch.setattr("snia_pts.lab.observation.process_io._MAX_SHARE", 1.0)  # a busy host would read less often
    target, evidence = tmp_path / "x.img", tmp_path / "e"
    target.write_bytes(bytes(16 * MIB))
    evidence.mkdir()
    code = (
        "import os, sys, time\nfile = open(sys.argv[1], 'wb', 0)\n"
        "while True: file.write(bytes(1 << 20)); os.fsync(file); file.seek(0); time.sleep(0.02)"
    )
    lab = FioEngine(str(target), evidence, seed=1, io_engine="libaio")
    request = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=1,
        range_offset_bytes=0,
        range_bytes=16 * MIB,
        seconds=4.5,
    )
    # Started in the background of a shell that ends, so that it is not a child of this process.
    script = 'exec "$0" -c "$1" "$2" >&- 2>&- & echo $!'
    shell = ["sh", "-c", script, sys.executable, code, str(tmp_path / "other")]
    pid = subprocess.run(shell, check=True, capture_output=True, text=True).stdout.strip()
    try:
        (point,) = lab.measure([request])
    finally:
        os.kill(int(pid), signal.SIGKILL)
    with (evidence / f"{point.evidence}.iotop.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["process"].startswith(f"{pid} ")]

    assert point.telemetry
    (found,) = [item for item in point.telemetry.processes if item.pid == pid]
    assert found.written_bytes == sum(int(line["written_bytes"]) for line in lines) >= MIB
    assert found.written_bytes % MIB == 0
    assert found.name.startswith("python")


# -- the warning ------------------------------------------------------------------------------------------------------

RSYNC = ProcessIo(pid="7", name="rsync", read_bytes=100 * MB, written_bytes=20 * MB)


def point(moved: int = 100 * MB, **changes: Any) -> Measurement:
    written = transfers(moved // 4096, transferred_bytes=moved)
    return replace(measurement(stimulus(), write=written), telemetry=vitals(**changes))


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"processes": (RSYNC,)}, True),
        ({"processes": (ProcessIo(pid="7", name="rsync", read_bytes=8 * MB, written_bytes=0),)}, False),
        ({"processes": (RSYNC,), "moved": 10_000 * MB}, False),  # 1.2 %
        ({"processes": (ProcessIo(pid="7", name="[kworker]", read_bytes=10**9, written_bytes=0),)}, False),
        ({"processes": (RSYNC,), "block": block_statistics(write_bytes=100 * MB)}, False),
        ({"processes": (RSYNC,), "block": block_statistics(write_bytes=250 * MB)}, True),
    ],
)
def test_a_warning_names_the_processes_that_may_have_disturbed(changes: dict[str, Any], *, warned: bool) -> None:
    """On a drive only if the block layer counted I/O of others there; a thread of the kernel also works for fio."""
    sentences = [sentence for name, sentence in disturbances([point(**changes)]) if name == "other processes"]

    expected = "in 1 of 1 measurement other processes did I/O, on this or another device: rsync (process 7) 120 MB"
    assert sentences == [expected] * warned
