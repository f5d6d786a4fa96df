"""Make the run folders of this directory: ``python -m tests.run_folders.make``, as root, in about 15 seconds.

It replaces the runs that a version before 0.2.0 made.  Runs of later versions stay for ever, so it adds the new ones
beside them, as ``NAME-VERSION``.

Each run becomes ``NAME.tar.xz``; ``NAME.json`` contains the version of the suite that made it, its verdict and its key
figures.  Seeds are fixed, so that two runs of a simulated drive differ only in their times.  The runs ``array`` and
``drive`` are of fio on loop devices.  The members of the array, their purge and fio are real; another loop device
stands in for the array itself, because many kernels have no md driver.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as StopEvent
from typing import Any
from unittest.mock import patch

from packaging.version import Version

from snia_pts.cli.main import main
from snia_pts.errors import Interrupted
from snia_pts.lab.engine import EngineIdentity
from snia_pts.lab.host.platform import read_platform
from snia_pts.model.run_options import RunOptions
from snia_pts.model.test_platform import TestPlatform
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.record.suite import SuiteFolder
from snia_pts.results.key_figures import key_figures
from snia_pts.runner.caller import Caller
from snia_pts.runner.events import Event, RoundEvaluated
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import resume
from snia_pts.runner.run import run
from tests import tkperf_files
from tests.command_line import assessed
from tests.drives import MIB, loop_device
from tests.test_array import SimulatedController, loops, write_array_file
from tests.test_end_to_end_of_all import LOOP, SETTLE, SHORT, TINY

HERE = Path(__file__).parent
_DRIVE = "sim:enterprise-sata"
_QUIET = ("--progress", "none", "--to", "none")
_SEED = 4711
#: The first release whose run folders stay.
_FROZEN_SINCE = Version("0.2.0")
#: A run warns of other processes that it cannot examine; those of this host do not belong in a stored run.
_ISOLATED = ("unshare", "--pid", "--fork", "--mount-proc")


def expected(name: str) -> dict[str, Any]:
    """Return the stored verdict and key figures of a run."""
    document: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    return document


def summarize(path: Path) -> dict[str, Any]:
    """Return the verdict and the key figures of each test in a folder, and the version that made it."""
    suite = SuiteFolder.existing(path)
    folders = [suite.run_path(test) for test in suite.tests] if suite else [path]
    results = [assess(RunFolder.existing(folder)) for folder in folders]
    return {
        "suite_version": results[0].facts.platform.suite_version,
        "tests": [
            {
                "test": result.facts.spec.test,
                "ending": result.ending,
                "verdict": result.verdict,
                "interruptions": len(result.interruptions),
                "figures": {figure.name: figure.value for figure in key_figures(result)},
            }
            for result in results
        ],
    }


def _call(*words: str) -> None:
    """Run a command line; its text is shown only if it fails."""
    with redirect_stdout(io.StringIO()) as text:
        exit_code = main([*words])
    if exit_code:
        sys.exit(f"{text.getvalue()}snia-pts {' '.join(words)}: exit code {exit_code}")


def _settings(settings: tuple[str, ...]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def _standard(name: str) -> None:
    """Run a short test, which is too short to fill the drive."""
    fills = ("settling.minimum_fills=0",) if SETTLE[0] in SHORT[name] else ()
    _call(name, _DRIVE, *_settings((*SHORT[name], *fills)), "--seed", str(_SEED), "--run-dir", name, *_QUIET)


def _interrupted(name: str) -> None:
    """Interrupt a run after its third round, and resume it until it is steady for five rounds."""
    overrides = ("rounds.point_seconds=1", "rounds.block_sizes_kib=[1024, 64, 4]", "rounds.read_percents=[100, 65, 0]")
    options = RunOptions(test="iops", target=_DRIVE, overrides=overrides, seed=_SEED, formats=(), run_folder=Path(name))
    stop = StopEvent()

    def stop_after_round_3(event: Event) -> None:
        if isinstance(event, RoundEvaluated) and event.evaluated_round.number == 3:
            stop.set()

    try:
        run(options, Caller(on_event=stop_after_round_3, stop=stop))
    except Interrupted:
        resume(Path(name), ResumeOptions(), Caller())


def _profile(name: str) -> None:
    axis = ("--axis", "queue_depth=1,8,64")
    _call("profile", "run", "queue-depth", _DRIVE, *axis, "--seed", str(_SEED), "--run-dir", name, *_QUIET)


def _imported(name: str) -> None:
    """Import a file of TKperf with four tests: a suite folder."""
    Path("intel320.xml").write_bytes(tkperf_files.ssd())
    _call("import", "intel320.xml", "--run-dir", name, "--to", "none")


def _drive(name: str) -> None:
    """Run write saturation with fio on a loop device; its evidence includes samples."""
    Path("drive.img").touch()
    settings = (*SETTLE, "saturation.seconds=2", "saturation.capacities=1000", "histogram.seconds=0.5")
    with loop_device(Path("drive.img"), 64 * MIB) as device:
        words = (*_settings(settings), "--purge", "blkdiscard", "--serial", device.name, "--seed", str(_SEED))
        _call("wsat", str(device), *words, "--run-dir", name, *_QUIET)


def _array(name: str) -> None:
    """Run a small IOPS test with fio on a RAID 5 of three loop devices, for which a fourth one stands in."""
    with loops(Path(), 4 * MIB, 4 * MIB, 4 * MIB, 8 * MIB) as (*members, device):
        target = write_array_file(Path(), members)
        with Path("array.toml").open("a", encoding="utf-8") as file:
            file.write("\n[measured]\ndisk_iops = 1000\n")
        words = ("--pts", "1.1", *_settings((*LOOP, *TINY)), "--purge", "blkdiscard", "--seed", str(_SEED))
        confirmed = ("--discard-data", "--serial", ",".join(member.name for member in members))
        with (
            patch("snia_pts.arrays.setup.require_driver"),
            patch("snia_pts.arrays.setup.controller_of", lambda layout: SimulatedController(device)),
        ):
            _call("iops", target, *words, *confirmed, "--run-dir", name, *_QUIET)


#: The function that makes each run in the working directory.
RUNS: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(SHORT, _standard),
    "interrupted": _interrupted,
    "profile": _profile,
    "imported": _imported,
    "drive": _drive,
    "array": _array,
}


def stored_runs() -> list[str]:
    """Return the names of all stored runs, those of earlier versions included."""
    return sorted(path.stem for path in HERE.glob("*.json"))


def _pack(folder: Path, path: Path) -> None:
    """Write an archive of a folder; the same content gives the same bytes."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(path, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as archive_file:
        for member_path in sorted(folder.rglob("*"), key=str):
            archive_file.add(member_path, member_path.relative_to(folder.parent), recursive=False, filter=anonymous)


def _platform(engine: EngineIdentity) -> TestPlatform:
    """Return the facts about the host without its own name and kernel."""
    return replace(read_platform(engine), hostname="host", kernel="6.1.0")


def make(target: Path) -> None:
    """Make all runs in the working directory, check them with ``assess``, and write archives and figures."""
    with (
        patch("snia_pts.runner.run.read_platform", _platform),
        patch("snia_pts.runner.resume.read_platform", _platform),
    ):
        for name, make_run in RUNS.items():
            make_run(name)
    for name in RUNS:
        assessed(Path(name))
        _pack(Path(name), target / f"{name}.tar.xz")
        text = json.dumps(summarize(Path(name)), indent=1, ensure_ascii=False)
        (target / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def add_runs(made: Path, stored: Path) -> list[Path]:
    """Copy the runs in ``made`` to ``stored`` and return their files; replace only those from before 0.2.0.

    A run gets the name ``NAME-VERSION`` if the one of its name stays.  Nothing is written if a version's run exists.
    """
    targets: dict[Path, Path] = {}
    for summary in sorted(made.glob("*.json")):
        name, target = summary.stem, stored / summary.name
        if target.exists() and _stays(target):
            version = json.loads(summary.read_text("utf-8"))["suite_version"]
            target = stored / f"{name}-{version}.json"
            if target.exists():
                raise FileExistsError(f"{target} exists, and runs of version 0.2.0 and later stay as they are.")
        targets[summary] = target
        targets[made / f"{name}.tar.xz"] = target.with_suffix(".tar.xz")
    return [Path(shutil.copyfile(source, target)) for source, target in targets.items()]


def _stays(summary: Path) -> bool:
    version = json.loads(summary.read_text("utf-8"))["suite_version"]
    return Version(version) >= _FROZEN_SINCE


def _make_all() -> None:
    """Make all runs where no other process is visible, and add them to the stored ones if all succeed."""
    if os.geteuid() != 0:
        sys.exit("Only root can make the runs on loop devices. Run it as root.")
    if missing := [program for program in ("fio", "mdadm", "unshare") if not shutil.which(program)]:
        sys.exit(f"Not installed: {', '.join(missing)}.")
    with TemporaryDirectory() as folder:
        command = [*_ISOLATED, sys.executable, "-m", "tests.run_folders.make", folder]
        subprocess.run(command, check=True, cwd=HERE.parents[1])
        for path in add_runs(Path(folder), HERE):
            print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    if sys.argv[1:]:
        with TemporaryDirectory(prefix="run-folders-") as work, chdir(work):
            make(Path(sys.argv[1]))
    else:
        _make_all()
