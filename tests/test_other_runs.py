"""Two runs on one disk, with different files: each reports the other, and neither is refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from snia_pts.lab.device.other_runs import disks_of
from snia_pts.lab.device.target_claim import claim_target
from tests.command_line import ENVIRONMENT, command
from tests.drives import MIB, filled, loop_device, make_ext4, mounted
from tests.test_end_to_end import SMALL

#: Claims a file until its input ends.
CLAIMS = (
    "import sys\nfrom pathlib import Path\nfrom snia_pts.lab.device.target_claim import claim_target\n"
    "with claim_target(Path(sys.argv[1]), size_bytes=None, overwrite=True):\n    print('claimed', flush=True)\n"
    "    sys.stdin.read()"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two files on one disk."""
    if not disks_of(tmp_path):
        pytest.skip("the file system of the tests reports no disk")
    return filled(tmp_path / "one"), filled(tmp_path / "other")


@contextmanager
def claimed_elsewhere(path: Path) -> Iterator[str]:
    """Claim a file in another process, and yield how a message names that process."""
    argv = [sys.executable, "-c", CLAIMS, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        yield f"another run of snia-pts (process {process.pid}) used the same disk"
        process.stdin.close()


@pytest.mark.long
def test_two_targets_on_one_disk_detect_each_other(files: tuple[Path, Path]) -> None:
    """The first detects the second at its next check and remembers it; a later target does not learn of it."""
    one, other = files
    with claim_target(one, size_bytes=None, overwrite=True) as first:
        own = f"(process {os.getpid()})"
        assert not any(own in line for line in first.other_runs.find())
        with claimed_elsewhere(other) as name:
            assert any(line.startswith(name) for line in first.other_runs.find())
            assert any(line.startswith(name) for line in first.other_runs.find())
        assert any(line.startswith(name) for line in first.other_runs.find())
    with claim_target(one, size_bytes=None, overwrite=True) as later:
        assert not any(line.startswith(name) for line in later.other_runs.find())


@pytest.mark.long
def test_two_targets_of_one_process_detect_each_other(files: tuple[Path, Path]) -> None:
    """A program may run two tests in threads."""
    one, other = files
    with (
        claim_target(one, size_bytes=None, overwrite=True) as first,
        claim_target(other, size_bytes=None, overwrite=True) as second,
    ):
        for target in (first, second):
            assert any(f"(process {os.getpid()})" in line for line in target.other_runs.find())


def test_a_run_on_another_disk_does_not_count(files: tuple[Path, Path]) -> None:
    """The announcement must have the number of the disk; other text in that form does not count."""
    one, _ = files
    (number,) = list(disks_of(one))[:1]
    names = [
        f"snia-pts/{number}0/77/{'0' * 16}",
        f"snia-pts/{number}/77/{'x' * 16}",
        f"not-snia-pts/{number}/77/{'0' * 16}",
    ]
    with claim_target(one, size_bytes=None, overwrite=True) as target:
        sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in names]
        for opened, name in zip(sockets, names, strict=True):
            opened.bind(f"\0{name}")
        assert not any("(process 77)" in line for line in target.other_runs.find())
        for opened in sockets:
            opened.close()


def test_forged_names_do_not_fill_the_result(files: tuple[Path, Path]) -> None:
    """Any user can create sockets with such names."""
    one, _ = files
    (number,) = list(disks_of(one))[:1]
    with claim_target(one, size_bytes=None, overwrite=True) as target, ExitStack() as stack:
        for process in range(50):
            forged = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            forged.bind(f"\0snia-pts/{number}/{process}/{process:016x}")
        assert len(target.other_runs.find()) == 10


@pytest.mark.root
def test_the_disk_of_a_file_is_found_through_loop_devices_and_mounts(files: tuple[Path, Path], tmp_path: Path) -> None:
    """A file, a loop device on it, and a file in a file system on that are all on the same disk; a tmpfs has none."""
    one, _ = files
    with loop_device(tmp_path / "image", 64 * MIB) as device:
        make_ext4(device)
        with mounted(device, tmp_path / "mnt") as place:
            assert disks_of(device) == disks_of(filled(place / "inner")) == disks_of(one) != {}
    with mounted("none", tmp_path / "memory", "-t", "tmpfs") as place:
        assert disks_of(filled(place / "file", MIB)) == {}


@pytest.mark.long
def test_the_results_of_both_runs_have_a_warning(files: tuple[Path, Path]) -> None:
    """The second has it from its start, the first at its end; both finish."""
    folder = files[0].parent
    long = ("--set", "steady_state.window_rounds=100", "--max-rounds", "100")
    argv = command("iops", "first.img", "--size", "16M", "--run-dir", "first", "--to", "none", *SMALL, *long)
    with subprocess.Popen(
        argv, cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as first:
        while not (folder / "first/journal.jsonl").exists():
            assert first.poll() is None
        argv = command("iops", "second.img", "--size", "16M", "--run-dir", "second", "--to", "none", *SMALL)
        second = subprocess.run(argv, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        first.terminate()
        first.communicate()
    assert (first.returncode, second.returncode) == (130, 0)
    assert f"another run of snia-pts (process {first.pid}) used the same disk" in second.stderr
    entries = {
        name: [json.loads(line)["entry"] for line in (folder / name / "journal.jsonl").read_text().splitlines()]
        for name in ("first", "second")
    }
    assert [item for item in entries["first"][-1]["warnings"] if item["what"] == "shared disk"]
    assert [item for item in entries["second"][0]["facts"]["warnings"] if f"(process {first.pid})" in item["detail"]]
    assert not [item for item in entries["second"][-1]["warnings"] if f"(process {first.pid})" in item["detail"]]
