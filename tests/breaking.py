"""Breaks real runs on a loop device as hosts, drives and people do, resumes them, and requires that nothing is lost."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from snia_pts.errors import TargetBusy, TargetUnfit
from snia_pts.lab.device.target_claim import claim_target
from snia_pts.units import exact_capacity
from tests.command_line import assessed, command, opened_files
from tests.drives import MIB, loop_device, mounted
from tests.killing import whole_lines

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SIZE_BYTES = 64 * MIB
#: The maximum time for which a killed process may live, or a resource stay claimed.
PATIENCE_SECONDS = 5.0
#: Programs that run before the stimuli of the test.
_LOOK = re.compile(r"/(00000-|\d{5}-probe-)")
_EITHER = (
    "--to",
    "none",
    "--max-rounds",
    "3",
    "--set",
    "steady_state.window_rounds=2",
    "--set",
    "steady_state.tracked=[{metric = 'iops', block_size_kib = 4, read_percent = 0}]",
)
#: A run of some seconds: purge, preconditioning, and two or three rounds of four points.
SHORT = (
    *_EITHER,
    "--point-seconds",
    "0.2",
    "--set",
    "rounds.read_percents=[100, 0]",
    "--set",
    "rounds.block_sizes_kib=[64, 4]",
)
#: Two points per round, each long enough for a fault during it.
LONG = (
    *_EITHER,
    "--point-seconds",
    "1.5",
    "--set",
    "rounds.read_percents=[0]",
    "--set",
    "rounds.block_sizes_kib=[8, 4]",
)


class RequirementFailed(AssertionError):
    """A broken run failed a requirement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRun:
    """How a broken run ended: its exit code, standard error and journal.

    After its end its last program ended within ``gone_seconds``, and the next run could claim the target within
    ``free_seconds``.
    """

    code: int
    stderr: str
    journal: bytes
    gone_seconds: float
    free_seconds: float


@dataclass(slots=True, kw_only=True)
class Run:
    """A running command line that tests ``device`` in ``folder``."""

    folder: Path
    device: Path
    how: tuple[str, ...] = SHORT
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        argv = command("iops", str(self.device), "--serial", self.device.name, *self.how, "--run-dir", str(self.folder))
        self.process = subprocess.Popen(
            ["env", "--default-signal=INT,HUP", *argv],  # even if the caller of the tests ignores them
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    @property
    def journal(self) -> bytes:
        """The journal so far; empty before the run starts."""
        with suppress(FileNotFoundError):
            return (self.folder / "journal.jsonl").read_bytes()
        return b""

    def programs(self) -> dict[int, str]:
        """Return the processes of this run, running or prepared, except the suite itself."""
        return programs_of(self.folder / "evidence")

    def fio(self) -> list[int]:
        """Return the fio processes that measure, without the prepared ones."""
        return [
            pid
            for pid, words in self.programs().items()
            if "fio --output" in words and not _LOOK.search(words) and self._release(words)
        ]

    def _release(self, words: str) -> bool:
        job = re.search(r"(\S+)\.fio(?!\S)", words)
        return job is not None and Path(f"{job[1]}.process.json").exists()

    def await_point(self, number: int) -> None:
        """Wait until the fio of the stimulus with this number (1 is the preconditioning) does I/O."""
        until = time.monotonic() + 60
        while not any(
            f"{number:05d}-" in words and "fio --output" in words and self._release(words)
            for words in self.programs().values()
        ):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RequirementFailed(f"it never reached stimulus {number}: {self.process.communicate()[1]}")
            time.sleep(0.01)
        time.sleep(0.5)

    def end(self) -> str:
        """Wait until the suite has ended; return its standard error."""
        return self.process.communicate(timeout=120)[1]

    def resume(self) -> subprocess.CompletedProcess[str]:
        """Resume the run."""
        return snia_pts("resume", str(self.folder), "--serial", self.device.name)


def snia_pts(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    return subprocess.run(
        command(*argv),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
        timeout=300,
    )


def programs_of(evidence: Path) -> dict[int, str]:
    """Return every process that names a file in a folder, or has it open, and is not a zombie.

    The key is its number, the value its command line and the names of its open files: fio gets its files as
    descriptors.
    """
    found = {}
    for owner in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid, words = int(owner.name), (owner / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            words += opened_files(pid)
            if any(f"{evidence}/" in word for word in words):
                found[pid] = " ".join(words)
    return found


@contextmanager
def freed(run: Run) -> Iterator[list[float]]:
    """Require that the run leaves no program and its target free after the block; yield the times of both."""
    taken: list[float] = []
    yield taken
    began = time.monotonic()
    while left := run.programs():
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise RequirementFailed(f"left behind: {left}")
        time.sleep(0.01)
    taken.append(time.monotonic() - began)
    while True:
        try:
            with claim_target(run.device, size_bytes=None, overwrite=False, discard_data=True):
                break
        except TargetUnfit:  # because of the fault
            break
        except TargetBusy as busy:
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise RequirementFailed(f"still in use: {busy}") from None
            time.sleep(0.01)
    taken.append(time.monotonic() - began)


def entries(journal: bytes) -> list[dict[str, Any]]:
    """Return the entries of a journal, without an incomplete line."""
    return [json.loads(line)["entry"] for line in whole_lines(journal).splitlines()]


def outcomes(journal: bytes) -> list[dict[str, Any]]:
    """Return the outcomes in a journal."""
    return [entry["outcome"] for entry in entries(journal) if entry["kind"] == "outcome"]


def require_no_step_lost(folder: Path, journal: bytes) -> None:
    """Require that every measurement that fio answered is in the journal, except the last one."""
    journaled = {outcome.get("evidence") for outcome in outcomes(journal)}
    answered = []
    for path in sorted((folder / "evidence").glob("*.process.json")):
        name = path.name.removesuffix(".process.json")
        with suppress(ValueError):  # an incomplete file
            has_job = path.with_name(f"{name}.fio").exists() and not _LOOK.search(f"/{name}")
            if has_job and json.loads(path.read_text())["exit_code"] == 0:
                answered.append(name)
    lost = [name for name in answered[:-1] if name not in journaled]
    if lost:
        raise RequirementFailed(f"fio answered {lost}, and the journal does not know of it")


def broken(run: Run, how: Callable[[Run], object]) -> BrokenRun:
    """Break a run; require that nothing is lost or left behind, and that the target is free for the next run."""
    with freed(run) as taken:
        how(run)
        stderr = run.end()
    require_no_step_lost(run.folder, run.journal)
    if "Traceback" in stderr:
        raise RequirementFailed(stderr)
    return BrokenRun(
        code=run.process.returncode, stderr=stderr, journal=run.journal, gone_seconds=taken[0], free_seconds=taken[1]
    )


def resumed(run: Run, before: BrokenRun) -> subprocess.CompletedProcess[str]:
    """Resume a broken run; require that it finishes or is refused, and that nothing is lost."""
    journal = before.journal
    done = run.resume()
    if not run.journal.startswith(whole_lines(journal)):
        raise RequirementFailed("what was journaled before is not there any more")
    if "Traceback" in done.stderr:
        raise RequirementFailed(done.stderr)
    if run.programs():
        raise RequirementFailed(f"left behind: {run.programs()}")
    if done.returncode == 0:
        require_finished(run)
    return done


def require_finished(run: Run) -> dict[str, Any]:
    """Require that the run is finished and its result agrees with the journal; return the assessment."""
    document = assessed(run.folder)
    if document["ending"] != "finished" or document["differs_from_journal"]:
        raise RequirementFailed(f"{document['ending']}, differs in {document['differs_from_journal']}")
    return document


# -- ways to break a run ----------------------------------------------------------------------------------------------


def kill_suite(chance: random.Random, seconds: float) -> Callable[[Run], None]:
    """Return a fault: SIGKILL of the suite at a random moment within ``seconds``."""

    def kill(run: Run) -> None:
        time.sleep(chance.uniform(0, seconds))
        run.process.kill()

    return kill


def kill_fio(chance: random.Random, seconds: float) -> Callable[[Run], None]:
    """Return a fault: SIGKILL of the fio that runs at a random moment within ``seconds``, or of the next one."""

    def kill(run: Run) -> None:
        time.sleep(chance.uniform(0, seconds))
        while run.process.poll() is None and not signal_fio(run, signal.SIGKILL):
            pass

    return kill


def signal_fio(run: Run, number: signal.Signals) -> bool:
    """Send a signal to the measuring fio; return whether there was one."""
    found = run.fio()
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(found)


def at_point(do: Callable[[Run], object], number: int) -> Callable[[Run], None]:
    """Return a fault that is caused while a stimulus runs."""

    def wait_and_do(run: Run) -> None:
        run.await_point(number)
        do(run)

    return wait_and_do


def signal_suite(number: signal.Signals) -> Callable[[Run], None]:
    """Return a fault: a signal to the suite."""
    return lambda run: run.process.send_signal(number)


def pause_fio(seconds: float) -> Callable[[Run], None]:
    """Return a fault: fio is stopped, and continued after ``seconds``."""

    def claim_target(run: Run) -> None:
        signal_fio(run, signal.SIGSTOP)
        time.sleep(seconds)
        signal_fio(run, signal.SIGCONT)

    return claim_target


def limit(what: int, amount: Callable[[Run], int]) -> Callable[[Run], None]:
    """Return a fault: a resource limit of the suite and of the programs that it starts."""

    def set_limit(run: Run) -> None:
        resource.prlimit(run.process.pid, what, (amount(run), amount(run)))

    return set_limit


def address_space_bytes(run: Run) -> int:
    """Return the address space of the suite plus 1 MiB."""
    text = Path(f"/proc/{run.process.pid}/statm").read_text()
    return int(text.split()[0]) * resource.getpagesize() + MIB


def descriptors(run: Run) -> int:
    """Return how many descriptors the suite has open."""
    return len(list(Path(f"/proc/{run.process.pid}/fd").iterdir()))


def shrink(run: Run) -> None:
    """Halve the size of the device."""
    _resize(run.device, SIZE_BYTES // 2)


def _resize(device: Path, size_bytes: int) -> None:
    losetup = ["losetup", "--noheadings", "--output", "BACK-FILE", str(device)]
    os.truncate(subprocess.run(losetup, capture_output=True, text=True, check=True).stdout.strip(), size_bytes)
    subprocess.run(["losetup", "--set-capacity", device], check=True)


def write_protect(run: Run) -> None:
    """Make the device read-only."""
    subprocess.run(["blockdev", "--setro", run.device], check=True)


def fill(run: Run) -> None:
    """Fill the disk of the run folder almost completely."""
    status = os.statvfs(run.folder)
    with (run.folder.parent / "filler").open("wb") as file:
        file.write(bytes(max(0, status.f_bavail * status.f_frsize - MIB)))


def _make_writable(device: Path) -> None:
    subprocess.run(["blockdev", "--setrw", device], check=True)


def mend(run: Run) -> None:
    """Undo the faults of the device, and free space on the disk."""
    _make_writable(run.device)
    _resize(run.device, SIZE_BYTES)
    (run.folder.parent / "filler").unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, and how the run must end: its exit code and message."""

    do: Callable[[Run], object]
    code: int
    message: str
    small_disk: bool = False

    def waited(self) -> Fault:
        """Return the same fault, caused while the first point of a round is measured."""
        return replace(self, do=at_point(self.do, 2))

    def require(self, broken: BrokenRun) -> None:
        """Require that a run ended as it must."""
        if broken.code != self.code or self.message not in broken.stderr:
            raise RequirementFailed(f"it ended with {broken.code} and printed {broken.stderr}")


#: All faults of a point of a run, except random kills and faults that only a drive can have.
FAULTS = {
    "SIGINT of the suite": Fault(do=signal_suite(signal.SIGINT), code=130, message="Stopped by the operator"),
    "SIGTERM of the suite": Fault(do=signal_suite(signal.SIGTERM), code=130, message="Terminated (SIGTERM)"),
    "SIGHUP of the suite": Fault(do=signal_suite(signal.SIGHUP), code=130, message="hang-up (SIGHUP)"),
    "SIGSTOP of fio, for 0.1 s": Fault(do=pause_fio(0.1), code=13, message="another process stopped fio for about 0"),
    "SIGSTOP of fio, for good": Fault(
        do=lambda run: signal_fio(run, signal.SIGSTOP), code=13, message="another process stopped fio"
    ),
    "SIGTERM of fio": Fault(
        do=lambda run: signal_fio(run, signal.SIGTERM), code=13, message="another process stopped fio"
    ),
    "SIGKILL of fio": Fault(do=lambda run: signal_fio(run, signal.SIGKILL), code=13, message="killed by signal 9"),
    "the device shrinks": Fault(do=shrink, code=12, message=f"its size was {exact_capacity(SIZE_BYTES)} and is"),
    "the device turns read-only": Fault(do=write_protect, code=12, message="the device has become read-only"),
    "the results disk is full": Fault(do=fill, code=13, message="the disk of the run folder is full", small_disk=True),
    "RLIMIT_FSIZE": Fault(do=limit(resource.RLIMIT_FSIZE, lambda run: 4096), code=13, message="File too large"),
    "RLIMIT_NOFILE": Fault(do=limit(resource.RLIMIT_NOFILE, descriptors), code=13, message="Too many open files"),
    "RLIMIT_AS": Fault(do=limit(resource.RLIMIT_AS, address_space_bytes), code=13, message="The host failed"),
}


@contextmanager
def place(folder: Path, *, small_disk: bool = False) -> Iterator[tuple[Path, Path]]:
    """Yield a loop device on a new file, and a folder for a run; on a disk of 20 MB if ``small_disk``."""
    folder.mkdir(exist_ok=True)
    with loop_device(folder / "drive.img", SIZE_BYTES) as device, ExitStack() as after:
        after.callback(_make_writable, device)  # the kernel keeps the settings for the next device
        disk = folder
        if small_disk:
            disk = after.enter_context(mounted("none", folder / "results", "-t", "tmpfs", "-o", "size=20M"))
        yield device, disk / "run"
