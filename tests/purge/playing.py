"""Programs that play what real ones said: a folder of them on the PATH, a drive that is a file, and a log of it all."""

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

#: Plays the first rule whose words are all in its arguments and whose state is that of the drive.
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
    sys.exit("not before there is " + rule["needs"])
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
    """What a program does when its arguments hold ``when`` and the drive is in ``state`` (None: in any).

    It erases a file, puts the drive in state ``then``, speaks, takes ``seconds``, and exits; it refuses where nothing
    fits the pattern ``needs``, in the test's folder.
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
    """Return what a tool said."""
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def altered(name: str, **changes: Any) -> str:
    """Return what a tool said as JSON, with other values."""
    return json.dumps({**json.loads(recorded(name)), **changes})


class Stage:
    """A folder of programs, and the drive they act on: a file that is called as the kernel would call the drive."""

    def __init__(self, folder: Path, drive: str, vendor: str = "") -> None:
        self._folder = folder / "stage"
        self.drive = filled(folder / drive, SIZE)
        self.evidence = folder / "evidence"
        self.root = folder / "root"
        for item in (self._folder / "bin", self._folder / "rules", self.evidence):
            item.mkdir(parents=True)
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
        """The drive's, as commands name it."""
        return str(self.drive)

    @property
    def search_path(self) -> str:
        """The PATH on which these programs come first."""
        return f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def play(self, program: str, *rules: Rule) -> None:
        """Let a program play rules, the first that fits."""
        (self._folder / "rules" / program).write_text(json.dumps([asdict(rule) for rule in rules]))
        link = self._folder / "bin" / program
        if not link.is_symlink():
            link.symlink_to(self._folder / "player")

    @property
    def state(self) -> str:
        """The drive's state, as the programs left it."""
        return (self._folder / "state").read_text()

    @state.setter
    def state(self, state: str) -> None:
        (self._folder / "state").write_text(state)

    @property
    def commands(self) -> list[list[str]]:
        """Every command so far."""
        return [json.loads(line) for line in (self._folder / "log").read_text().splitlines()]

    def acted(self, *asking: str) -> list[list[str]]:
        """Return the commands so far that do more than ask: all without one of these words."""
        return [command for command in self.commands if not set(asking) & set(command)]

    @contextmanager
    def target(self) -> Iterator[Target]:
        """The drive, held."""
        with claim_target(self.drive, size_bytes=None, overwrite=True) as claim:
            yield replace(claim, dut=replace(claim.dut, kind="drive"))

    def tools(self) -> Tools:
        """Return the programs as a purge has them."""
        dut = replace(read_dut(self.drive), kind="drive")
        return Tools(dut, self.evidence / "00000-purge", root=self.root)

    def purge(self, wanted: str = "auto", **how: Any) -> PurgeOutcome:
        """Purge the drive."""
        with self.target() as target:
            return Purger(requested=wanted, root=self.root, **how).purge(target, 7, self.evidence / "00000-purge")


@contextmanager
def staged(folder: Path, monkeypatch: pytest.MonkeyPatch, drive: str, vendor: str = "") -> Iterator[Stage]:
    """A stage whose programs come first on the PATH."""
    stage = Stage(folder, drive, vendor)
    monkeypatch.setenv("PATH", stage.search_path)
    monkeypatch.setattr(method, "_PAUSE_SECONDS", (0.01, 0.1))
    process.find.cache_clear()
    yield stage
    process.find.cache_clear()


class Canned(Tools):
    """Programs that only ask, and get these answers: by the name of the question."""

    def __init__(self, answers: Mapping[str, str], **facts: Any) -> None:
        super().__init__(samples.dut(**facts), Path("unused"))
        self._canned = answers

    def query(self, name: str, *argv: str) -> process.Finished:
        """Give the answer at once."""
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
