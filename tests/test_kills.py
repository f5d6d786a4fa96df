"""Real fio on a loop device, killed and broken, as ``bench/kills.py`` does more often: nothing lost or left behind."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from snia_pts.lab.host.settings_list import selected_value
from tests import breaking
from tests.breaking import FAULTS, Fault, Run
from tests.command_line import assessed

pytestmark = [pytest.mark.root, pytest.mark.long]


def test_a_killed_suite_leaves_nothing_behind_and_loses_nothing(tmp_path: Path) -> None:
    """After SIGKILL at a random moment no program is left, the target is free, and the run can be resumed."""
    with breaking.place(tmp_path / "x") as (device, folder):
        run = Run(folder=folder, device=device)
        broken = breaking.broken(run, breaking.at_point(breaking.kill_suite(random.Random(1), 1.5), 2))
        done = breaking.resumed(run, broken)

    assert broken.code == -9
    assert len(breaking.outcomes(broken.journal)) >= 2
    assert done.returncode == 0, done.stderr


def test_a_killed_run_leaves_a_note_of_what_it_set(tmp_path: Path) -> None:
    """After SIGKILL of a run with --tune, resuming it puts the host back first, sets it again, and puts it back."""
    with breaking.place(tmp_path / "x") as (device, folder):
        queue = Path("/sys/block") / device.name / "queue"
        if "mq-deadline" not in (queue / "scheduler").read_text():
            pytest.skip("this kernel has no mq-deadline")
        for name, text in (("scheduler", "mq-deadline"), ("nr_requests", "64")):
            (queue / name).write_text(text)
        run = Run(folder=folder, device=device, how=(*breaking.SHORT, "--tune"))
        broken = breaking.broken(run, breaking.at_point(breaking.kill_suite(random.Random(5), 0.5), 2))
        left = selected_value((queue / "scheduler").read_text()), (queue / "nomerges").read_text()
        noted = (folder / "settings.json").exists()
        done = breaking.resumed(run, broken)
        output = selected_value((queue / "scheduler").read_text()), (queue / "nr_requests").read_text()

    assert broken.code == -9
    assert (left, noted) == (("none", "2\n"), True)
    assert done.returncode == 0, done.stderr
    assert f"restored what the run {folder} left: merging of {device.name} 0, scheduler of" in done.stderr
    assert output == ("mq-deadline", "64\n")
    assert not (folder / "settings.json").exists()


def test_a_killed_fio_is_the_hosts_failure_and_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL of fio at a random moment ends the run with code 13, and resume completes it."""
    with breaking.place(tmp_path / "x") as (device, folder):
        run = Run(folder=folder, device=device)
        broken = breaking.broken(run, breaking.kill_fio(random.Random(3), 3.0))
        done = breaking.resumed(run, broken)

    Fault(do=print, code=13, message="fio was killed by signal 9").require(broken)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "what",
    [
        "SIGSTOP of fio, for 0.1 s",
        "the device turns read-only",
        "the results disk is full",
        "RLIMIT_FSIZE",
        "RLIMIT_AS",
    ],
)
def test_a_fault_ends_a_run_in_its_own_way(what: str, tmp_path: Path) -> None:
    """Each fault has its exit code and sentence; nothing is left behind or lost, and the target is free."""
    fault = FAULTS[what]
    with breaking.place(tmp_path / "x", small_disk=fault.small_disk) as (device, folder):
        run = Run(folder=folder, device=device, how=breaking.LONG)
        broken = breaking.broken(run, fault.waited().do)
        document = assessed(folder)

    fault.require(broken)
    kind = "unfinished" if what == "RLIMIT_FSIZE" else "device failed" if fault.code == 12 else "host failed"
    assert document["ending"] == kind  # a journal that cannot grow has no end
