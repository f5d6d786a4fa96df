"""Fake purge tools: programs on the PATH that replay recorded output, act on a file as the drive, and log each call."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.lab.device.identity import read_dut
from snia_pts.lab.device.target_claim import Target, claim_target
from snia_pts.lab.process import program as process
from snia_pts.lab.purge import Purger, method
from snia_pts.lab.purge.method import Tools
from snia_pts.model.measurement import PurgeOutcome
from tests import samples
from tests.drives import MIB, filled
from tests.hosts import make_kernel_files

RECORDED = Path(__file__).parent / "recorded"
SIZE = 4 * MIB

#: Runs the first rule whose ``when`` words are all in the arguments and whose state matches that of the drive.
_PLAYER = """#!{python} -IS
import json, os, pathlib, sys, time
here = pathlib.Path({folder!r})
state = (here / "state").read_text()
with open(here / "log", "a") as log:
    log.write(json.dumps([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
for rule in json.loads((here / "rules" / pathlib.Path(sys.argv[0]).name).read_text()):
    if set(rule["when"]) <= set(sys.argv) and rule["state"] in (None, state):
        break
else:
    sys.exit("no rule for " + " ".join(sys.argv) + " in state " + state)
if rule["needs"] and not list(here.parent.glob(rule["needs"])):
    sys.exit("missing file: " + rule["needs"])
if rule["erases"]:
    size = os.path.getsize(rule["erases"])
    os.truncate(rule["erases"], 0)
    os.truncate(rule["erases"], size)
if rule["then"] is not None:
    (here / "state").write_text(rule["then"])
sys.stdout.write(rule["says"])
sys.stdout.flush()
sys.stderr.write(rule["complains"])
sys.stderr.flush()
time.sleep(rule["seconds"])
sys.exit(rule["exits"])
"""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a program does if its arguments contain ``when`` and the drive is in ``state`` (None: any state).

    It erases the file ``erases``, sets the drive's state to ``then``, prints ``says`` on stdout and ``complains`` on
    stderr, sleeps for ``seconds``, and exits with the code ``exits``. It fails unless a file in the test's folder
    matches the pattern ``needs``.
    """

    when: tuple[str, ...] = ()
    state: str | None = None
    then: str | None = None
    says: str = ""
    complains: str = ""
    exits: int = 0
    erases: str = ""
    needs: str = ""
    seconds: float = 0.0


def recorded(name: str) -> str:
    """Return the recorded output of a tool."""
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def altered(name: str, **changes: Any) -> str:
    """Return the recorded JSON output of a tool, with some values changed."""
    return json.dumps({**json.loads(recorded(name)), **changes})


class Stage:
    """A folder of fake programs, and the drive they act on: a file with the kernel's name for such a drive."""

    def __init__(self, folder: Path, drive: str, vendor: str = "") -> None:
        self._folder = folder / "stage"
        self.drive = filled(folder / drive, SIZE)
        self.evidence = folder / "evidence"
        self.root = folder / "root"
        for directory in (self._folder / "bin", self._folder / "rules", self.evidence):
            directory.mkdir(parents=True)
        (self._folder / "log").touch()
        (self._folder / "state").write_text("")
        player = self._folder / "player"
        player.write_text(_PLAYER.format(python=sys.executable, folder=str(self._folder)))
        player.chmod(0o755)
        self.block = self.root / "sys/dev/block/0:0"
        (self.block / "device").mkdir(parents=True)
        make_kernel_files(self.root)
        if vendor:
            (self.root / "sys/bus/scsi").mkdir(parents=True)
            (self.block / "device/subsystem").symlink_to(self.root / "sys/bus/scsi")
            (self.block / "device/vendor").write_text(f"{vendor:8}\n")

    @property
    def path(self) -> str:
        """The path of the drive, as it appears in commands."""
        return str(self.drive)

    @property
    def search_path(self) -> str:
        """The PATH, with the folder of fake programs first."""
        return f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def play(self, program: str, *rules: Rule) -> None:
        """Create a fake program with these rules; the first that matches runs."""
        (self._folder / "rules" / program).write_text(json.dumps([asdict(rule) for rule in rules]))
        link = self._folder / "bin" / program
        if not link.is_symlink():
            link.symlink_to(self._folder / "player")

    @property
    def state(self) -> str:
        """The state of the drive, as the last program set it."""
        return (self._folder / "state").read_text()

    @state.setter
    def state(self, state: str) -> None:
        (self._folder / "state").write_text(state)

    @property
    def commands(self) -> list[list[str]]:
        """All commands run so far."""
        return [json.loads(line) for line in (self._folder / "log").read_text().splitlines()]

    def commands_without(self, *words: str) -> list[list[str]]:
        """Return the commands run so far that contain none of these words."""
        return [command for command in self.commands if not set(words) & set(command)]

    @contextmanager
    def target(self) -> Iterator[Target]:
        """The drive, claimed."""
        with claim_target(self.drive, size_bytes=None, overwrite=True) as claim:
            yield replace(claim, dut=replace(claim.dut, kind="drive"))

    def tools(self) -> Tools:
        """Return the Tools of a purge of the drive."""
        dut = replace(read_dut(self.drive), kind="drive")
        return Tools(dut, self.evidence / "00000-purge", root=self.root)

    def purge(self, requested: str = "auto", **options: Any) -> PurgeOutcome:
        """Purge the drive."""
        with self.target() as target:
            return Purger(requested=requested, root=self.root, **options).purge(
                target, 7, self.evidence / "00000-purge"
            )


@contextmanager
def staged(folder: Path, monkeypatch: pytest.MonkeyPatch, drive: str, vendor: str = "") -> Iterator[Stage]:
    """Create a stage whose programs come first on the PATH."""
    stage = Stage(folder, drive, vendor)
    monkeypatch.setenv("PATH", stage.search_path)
    monkeypatch.setattr(method, "_PAUSE_SECONDS", (0.01, 0.1))
    process.find.cache_clear()
    yield stage
    process.find.cache_clear()


class Canned(Tools):
    """Tools whose queries return prepared answers, by the name of the query."""

    def __init__(self, answers: Mapping[str, str], **facts: Any) -> None:
        super().__init__(samples.dut(**facts), Path("unused"))
        self._canned = answers

    def query(self, name: str, *argv: str) -> process.Finished:
        """Return the prepared answer without running a program."""
        return process.Finished(
            argv=argv,
            exit_code=0,
            timed_out=False,
            stopped_seconds=None,
            unkillable_pid=None,
            started="",
            started_monotonic_ns=0,
            ended_monotonic_ns=0,
            stdout=self._canned[name],
            stderr="",
        )
