"""Drives tested by a lab, some of them side by side, against the same drives each tested alone; with real fio.

``python bench/fleet_drives.py [--drives 12] [--hosts 2] [--side-by-side 2] [--memory DIR]`` (root) makes loop devices
of 32 MiB on files in DIR (/dev/shm by default), throttled by a control group to the rate of a slow drive, so that the
host can serve all of them.  It runs the throughput test on each alone, then a campaign of the same test on all, with a
server, a database and agents of its own.  For each drive it prints its host, the time in the queue, the number of its
neighbours, and by how much its throughput differs from that alone: ``beyond`` counts the differences whose confidence
interval excludes 0, of those with an interval.  It fails if a median difference is above 2 %, or if a result does not
name its neighbours and its time in the queue.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.fleet.campaign import plan_campaign
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.comparison import compare_figures, overall_difference
from snia_pts.results.result import TestResult
from tests.fleet.labs import TestLab, new_lab
from tests.store import postgresql

_SIZE_BYTES = 32 << 20
#: I/Os per second of a throttled drive, reads and writes.
_IOPS = (100, 50)
_TEST = "throughput"
_OVERRIDES = ("rounds.point_seconds=1", "rounds.maximum=5")
_LIMIT_SECONDS = 3600.0
_MAX_MEDIAN_PERCENT = 2.0
_CGROUPS = Path("/sys/fs/cgroup")


@contextmanager
def throttled_drives(folder: Path, count: int) -> Iterator[list[Path]]:
    """Make loop devices on files in memory, and throttle the I/O of this process and its children on them."""
    old = _CGROUPS / "blkio"
    home = old if old.is_dir() else _CGROUPS
    group = home / f"snia-pts-bench-{os.getpid()}"
    with ExitStack() as stack:
        devices = []
        images = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        for drive in range(count):
            image = images / f"{drive}.img"
            with image.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, _SIZE_BYTES)
            command = ["losetup", "--find", "--show", str(image)]
            made = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            stack.callback(subprocess.run, ["losetup", "--detach", made], check=True)
            devices.append(Path(made))
        group.mkdir()
        stack.callback(group.rmdir)
        if home != old:
            (home / "cgroup.subtree_control").write_text("+io")
        for device in devices:
            number = f"{os.major(device.stat().st_rdev)}:{os.minor(device.stat().st_rdev)}"
            reads, writes = _IOPS
            if home == old:
                (group / "blkio.throttle.read_iops_device").write_text(f"{number} {reads}")
                (group / "blkio.throttle.write_iops_device").write_text(f"{number} {writes}")
            else:
                (group / "io.max").write_text(f"{number} riops={reads} wiops={writes}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        stack.callback((home / "cgroup.procs").write_text, str(os.getpid()))
        yield devices


def tested_alone(device: Path, folder: Path) -> TestResult:
    """Run the test on a drive while no other one is tested."""
    words = [_TEST, str(device), "--serial", device.name, "--purge", "none", "--to", "none", "--run-dir", str(folder)]
    sets = [word for override in _OVERRIDES for word in ("--set", override)]
    command = [sys.executable, "-m", "snia_pts", *words, "--allow-unpurged", *sets]
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{device}: exit code {finished.returncode}\n{finished.stderr}")
    return assess(RunFolder.existing(folder))


def tested_by_a_lab(
    lab: TestLab, devices: Sequence[Path], hosts: int, side_by_side: int
) -> dict[str, tuple[str, TestResult]]:
    """Run a campaign with the test on all drives; return host and result of each by its name."""
    for number in range(hosts):
        own = devices[number::hosts]
        host = lab.add(f"h{number + 1}", *(device.name for device in own), side_by_side=side_by_side)
        text = host.configuration.read_text().replace("format = 1", 'format = 1\npurges = ["auto", "none"]', 1)
        for device in own:
            simulated = f'serial = "{device.name}"\ntarget = "sim:enterprise-nvme"'
            assert simulated in text
            text = text.replace(simulated, f'serial = "{device.name}"\ntarget = "{device}"')
        host.configuration.write_text(text)
        host.start()
    drives = [f'[[drive]]\nserial = "{device.name}"' for device in devices]
    overrides = ", ".join(f'"{override}"' for override in _OVERRIDES)
    options = f'[options]\npurge = "none"\nallow_unpurged = true\nformats = []\noverrides = [{overrides}]'
    campaign = lab.folder / "campaign.toml"
    campaign.write_text("\n".join(['format = 1\nname = "bench"', options, *drives, f'[[test]]\ntest = "{_TEST}"']))
    with lab.open() as opened:
        while len(opened.drives()) < len(devices):
            time.sleep(1)
        plan = plan_campaign(campaign, *opened.campaign_drives())
        requests = [run.request for run in plan.runs]
        opened.submit(requests)
    results = {}
    for request in requests:
        row = lab.until_state(request.run_id, "finished", "failed", "lost", "refused", seconds=_LIMIT_SECONDS)
        if row["state"] != "finished":
            raise SystemExit(f"{request.serial}: {row['state']}: {row['message']}")
        results[request.serial] = (row["host"], assess(RunFolder.existing(Path(row["folder"]))))
    return results


def main() -> None:
    """Test the drives alone and by a lab, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drives", type=int, default=12)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--side-by-side", type=int, default=2)
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"))  # noqa: S108
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        throttled_drives(arguments.memory, arguments.drives) as devices,
        postgresql.running_server() as server,
        new_lab(server, Path(temporary)) as lab,
    ):
        alone = {device.name: tested_alone(device, Path(temporary) / device.name) for device in devices}
        beside = tested_by_a_lab(lab, devices, arguments.hosts, arguments.side_by_side)
    wrong = 0
    head = ("in queue", "neighbours", "figures", "median %", "most %", "beyond")
    print(f"{'drive':8}{'host':6}{head[0]:>14}{head[1]:>12}{head[2]:>9}{head[3]:>10}{head[4]:>8}{head[5]:>9}")
    for name, result in alone.items():
        host, other = beside[name]
        figures = [figure for figure in compare_figures([result, other]) if figure.better == "more"]
        difference = overall_difference(figures, 1)
        assert difference is not None
        most = max(difference.minimum, difference.maximum, key=abs)
        settings = {setting.name: setting.value for setting in other.facts.platform.settings}
        warnings = [warning.detail for warning in other.end_warnings if warning.what == "tests side by side"]
        neighbours = sum(warning.count(", serial ") for warning in warnings)
        queued = settings.get("time in the queue", "-")
        named = queued != "-" and (neighbours > 0 or arguments.side_by_side == 1)
        wrong += abs(difference.median) > _MAX_MEDIAN_PERCENT or not named
        print(
            f"{name:8}{host:6}{queued:>14}{neighbours:12}{difference.count:9}{difference.median:10.2f}{most:8.2f}"
            f"{difference.significant:5} of {difference.judged}"
        )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
