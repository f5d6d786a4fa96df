"""Another file or device replaces the target between the suite's checks and the program that opens it."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import ENVIRONMENT, command
from tests.drives import MIB, content, filled, loop_device, need_root
from tests.test_end_to_end import SMALL

#: Commands that put the victim in the target's place; the target stays open under another name or none.
SWAPS = {
    "rename": 'mv "$PLACE/victim.img" "$PLACE/disk/x.img"',
    "symlink": 'rm "$PLACE/disk/x.img"; ln -s "$PLACE/victim.img" "$PLACE/disk/x.img"',
    "new file": 'rm "$PLACE/disk/x.img"; ln "$PLACE/victim.img" "$PLACE/disk/x.img"',
    "folder": 'mv "$PLACE/disk" "$PLACE/away"; mkdir "$PLACE/disk"; mv "$PLACE/victim.img" "$PLACE/disk/x.img"',
    "linked folder": 'mv "$PLACE/disk" "$PLACE/away"; mkdir "$PLACE/b"; mv "$PLACE/victim.img" "$PLACE/b/x.img"; '
    'ln -s "$PLACE/b" "$PLACE/disk"',
}
SIZE_BYTES = 16 * MIB


#: Replaces a program on the PATH.  Not a shell script: bash unblocks SIGCHLD, and fio would lose count of its I/Os.
WRAPPER = """#!{python} -IS
import os, pathlib, re, signal, subprocess, sys
folder, calls = pathlib.Path(__file__).parent, pathlib.Path(__file__).with_name("calls")
arguments, job = sys.argv[1:], pathlib.Path(sys.argv[-1])
if {program!r} == "dd" or "SNIA_PTS_TARGET" in os.environ and re.search("(?m)^rw=.*(write|rw)", job.read_text()):
    with calls.open("a") as file:
        file.write("call\\n")
    if len(calls.read_text().split()) >= {turn}:
        if {ready}:
            arguments = [each.replace("<&3 #", f"<&3; {{folder}}/swap #") for each in arguments]
        else:
            subprocess.run([folder / "swap"])
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv({real!r}, [{real!r}, *arguments])
"""


def wrapper(place: Path, program: str, swap: str, turn: int, *, ready: bool = False) -> dict[str, str]:
    """Put a program on the PATH that swaps the target at its writing call number ``turn``; return the environment.

    Every call of dd writes, and so does a call of fio that has a target and a job with writes.  The swap takes place
    before the real program starts; with ``ready``, after fio's waiting threads are released and before they open the
    target.
    """
    folder, real = place / "bin", shutil.which(program)
    folder.mkdir()
    once = f"#!/bin/sh\nmkdir {place}/swapped 2>/dev/null || exit 0\nPLACE={place}\n{swap}\n"
    around = WRAPPER.format(python=sys.executable, program=program, real=real, turn=turn, ready=ready)
    for path, text in ((folder / "swap", once), (folder / program, around)):
        path.write_text(text)
        path.chmod(0o755)
    return {**ENVIRONMENT, "PATH": f"{folder}:{os.environ['PATH']}"}


def run(place: Path, environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run a short test on ``disk/x.img``."""
    argv = ("iops", "disk/x.img", *SMALL, "--to", "none", "--run-dir", "run", *options)
    return subprocess.run(
        command(*argv),
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        stdin=subprocess.DEVNULL,
        env=environment,
    )


@pytest.mark.long
@pytest.mark.parametrize(("swap", "ready"), [*((swap, True) for swap in SWAPS), ("rename", False)])
def test_fio_writes_only_to_the_claimed_target(tmp_path: Path, swap: str, ready: bool) -> None:
    """A file put in the target's place just before fio opens it stays unchanged; the run ends with code 13."""
    (tmp_path / "disk").mkdir()
    victim = filled(tmp_path / "victim.img", SIZE_BYTES)
    before = content(victim)
    with victim.open("rb") as victim_file:
        environment = wrapper(tmp_path, "fio", SWAPS[swap], 2, ready=ready)
        done = run(tmp_path, environment, "--size", str(SIZE_BYTES), "--purge", "none")

        assert content(Path(f"/proc/self/fd/{victim_file.fileno()}")) == before
    assert (tmp_path / "swapped").exists(), done.stderr
    assert done.returncode == 13, done.stderr
    assert "disk/x.img" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("swap", SWAPS)
def test_a_purge_overwrites_only_the_claimed_target(tmp_path: Path, swap: str) -> None:
    """A file put in the target's place just before dd purges it stays unchanged; the run ends with code 11 or 13."""
    (tmp_path / "disk").mkdir()
    victim = filled(tmp_path / "victim.img", SIZE_BYTES)
    before = content(victim)
    with victim.open("rb") as victim_file:
        environment = wrapper(tmp_path, "dd", SWAPS[swap], 1)
        done = run(tmp_path, environment, "--size", str(SIZE_BYTES), "--purge", "overwrite")

        assert content(Path(f"/proc/self/fd/{victim_file.fileno()}")) == before
    assert (tmp_path / "swapped").exists(), done.stderr
    assert done.returncode in (11, 13), done.stderr


@pytest.mark.root
@pytest.mark.long
@pytest.mark.parametrize(("program", "purge"), [("fio", "none"), ("dd", "overwrite")])
def test_a_swapped_device_node_does_not_redirect_the_run(tmp_path: Path, program: str, purge: str) -> None:
    """If a node outside /dev becomes another device's, the run finishes and the other device stays unchanged."""
    need_root()
    filled(tmp_path / "victim", SIZE_BYTES)
    with loop_device(tmp_path / "own", SIZE_BYTES) as own, loop_device(tmp_path / "victim") as other:
        before, node = content(other), tmp_path / "node"
        os.mknod(node, 0o600 | stat.S_IFBLK, own.stat().st_rdev)
        minor = os.minor(other.stat().st_rdev)
        environment = wrapper(tmp_path, program, f'rm "{node}"; mknod "{node}" b 7 {minor}', 1)
        argv = ("iops", str(node), *SMALL, "--to", "none", "--run-dir", "run", "--purge", purge, "--discard-data")
        done = subprocess.run(
            command(*argv, "--serial", own.name),
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            env=environment,
        )

        assert (tmp_path / "swapped").exists(), done.stderr
        assert content(other) == before
        assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_ten_random_swaps_leave_the_victim_unchanged(tmp_path: Path) -> None:
    """A file that is renamed over the target at a random moment of a run stays unchanged in 10 of 10 runs."""
    chance = random.Random(19)
    for number in range(10):
        place = tmp_path / str(number)
        (place / "disk").mkdir(parents=True)
        victim = filled(place / "victim.img", SIZE_BYTES)
        before = content(victim)
        argv = ("iops", "disk/x.img", *SMALL, "--to", "none", "--run-dir", "run", "--size", str(SIZE_BYTES))
        with (
            victim.open("rb") as victim_file,
            (place / "output").open("wb") as output,
            subprocess.Popen(command(*argv), cwd=place, env=ENVIRONMENT, stdout=output, stderr=output) as running,
        ):
            while not (place / "run" / "journal.jsonl").exists() and running.poll() is None:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 1.5))
            victim.rename(place / "disk" / "x.img")
            code = running.wait(timeout=120)

            assert content(Path(f"/proc/self/fd/{victim_file.fileno()}")) == before, number
        assert code in (0, 11, 13), (place / "output").read_text()
        shutil.rmtree(place)
