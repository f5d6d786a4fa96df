"""What is changed for a run is put back: at its end, after SIGKILL, beside others.  Hostile notes change nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import HostFailed, TargetBusy
from snia_pts.files import replace_file
from snia_pts.lab.host import settings_list
from snia_pts.lab.settings import settings
from snia_pts.lab.settings.settings import (
    RESTORE_FILE,
    AppliedChange,
    Change,
    Setting,
    applied,
    changes_since_kill,
    restore,
)
from snia_pts.lab.settings.state_dir import restore_file_name

SCHEDULER = "sys/block/sdx/queue/scheduler"
MERGING = "sys/block/sdx/queue/nomerges"
REGISTER = "var/lib/snia-pts"
GOVERNOR = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"


@dataclass
class Host:
    """A host below ``root`` with one drive and one processor, and a run folder."""

    root: Path
    folder: Path
    told: list[str] = field(default_factory=list)

    @classmethod
    def made(cls, place: Path) -> Host:
        """Make one."""
        host = cls(place / "root", place / "run")
        host.folder.mkdir()
        (host.root / "var/lib").mkdir(parents=True)
        for name, text in {
            SCHEDULER: "none [mq-deadline]",
            MERGING: "0",
            GOVERNOR: "powersave",
            "sys/block/sdx/device/model": "DISK",
            "sys/block/sdx/device/wwid": "naa.1",
            "proc/sys/kernel/random/boot_id": "boot-1",
            "sys/block/sdx/device/scsi_disk/0:0:0:0/cache_type": "write back",
            "sys/block/sdx/device/rescan": "",
        }.items():
            host.write(name, text)
        return host

    def write(self, name: str, text: str) -> None:
        """Write a file of the host."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text + "\n")

    def read(self, name: str) -> str:
        """Return what a file holds."""
        return settings_list.selected_value((self.root / name).read_text().strip())

    def change(self, kind: str, place: str, value: str) -> Change:
        """Return a change."""
        setting = settings_list.find(kind, place, self.root)
        assert setting is not None
        return Change(setting=setting, value=value)

    @property
    def changes(self) -> list[Change]:
        """A change of the drive's scheduler, and of the processor's governor."""
        return [self.change("scheduler", "sdx", "none"), self.change("governor", "policy0", "performance")]

    @contextmanager
    def hold(self, *changes: Change, folder: Path | None = None) -> Iterator[tuple[AppliedChange, ...]]:
        """Hold changes."""
        find = partial(settings_list.find, root=self.root)
        asked = changes or tuple(self.changes)
        with applied(asked, folder or self.folder, find=find, report=self.told.append, root=self.root) as status:
            yield status

    def restore(self, folder: Path | None = None) -> tuple[str, ...]:
        """Put back what is left."""
        return restore(*filter(None, [folder]), find=partial(settings_list.find, root=self.root), root=self.root)

    @property
    def register(self) -> list[Path]:
        """The notes in the register."""
        return list((self.root / REGISTER).glob("*"))

    def leave(self, content: bytes) -> None:
        """Leave a note in the run folder, and its copy in the register."""
        (self.root / REGISTER).mkdir(mode=0o700, exist_ok=True)
        for place in (self.folder / RESTORE_FILE, self.root / REGISTER / restore_file_name(Path("/nowhere"))):
            place.write_bytes(content)

    def kill(self, *changes: Change) -> None:
        """Let a run be killed while it holds changes."""
        child = os.fork()
        if child == 0:
            with self.hold(*changes):
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host."""
    return Host.made(tmp_path)


def set_as_wished(host: Host) -> tuple[str, str]:
    """Return scheduler and governor."""
    return host.read(SCHEDULER), host.read(GOVERNOR)


SET, FOUND = ("none", "performance"), ("mq-deadline", "powersave")


# -- the end of a run ------------------------------------------------------------------------------------------------


def test_settings_are_set_for_a_run_and_put_back(host: Host) -> None:
    """In the block they are as wished, each told with what it was; after it they are as found, and no note is left."""
    with host.hold() as held:
        assert set_as_wished(host) == SET
        assert [(claim.before, claim.error) for claim in held] == [("mq-deadline", ""), ("powersave", "")]
        assert (host.folder / RESTORE_FILE).exists()
        assert len(host.register) == 1

    assert set_as_wished(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()
    assert not host.register
    assert not host.told


def test_an_exception_puts_them_back_too(host: Host) -> None:
    """However the block is left."""
    with pytest.raises(KeyboardInterrupt), host.hold():
        raise KeyboardInterrupt

    assert set_as_wished(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()


def test_a_setting_that_already_has_its_value_is_owned_and_not_restored(host: Host) -> None:
    """Nothing is set and nothing reported; if somebody changes it meanwhile, that stays, also after a kill."""
    for end in ("its end", "a kill"):
        host.write(SCHEDULER, "[none]")
        if end == "its end":
            with host.hold(host.changes[0]) as changes:
                assert changes == ()
                assert (host.folder / RESTORE_FILE).exists()
                host.write(SCHEDULER, "[kyber]")
        else:
            host.kill(host.changes[0])
            host.write(SCHEDULER, "[kyber]")
            assert host.restore(host.folder) == ()
        assert host.read(SCHEDULER) == "kyber"
        assert not host.told
        assert not (host.folder / RESTORE_FILE).exists()


def test_what_somebody_else_changed_is_left_alone_and_told(host: Host) -> None:
    """A value that is neither ours nor that of before is not overwritten; what else was set is put back."""
    with host.hold():
        host.write(SCHEDULER, "[kyber]")

    assert set_as_wished(host) == ("kyber", "powersave")
    (line,) = host.told
    assert (
        "scheduler of sdx is left as it is: it is kyber, "
        "neither the run's value (none) nor the original one (mq-deadline" in line
    )
    assert not (host.folder / RESTORE_FILE).exists()


def test_a_setting_that_is_not_there_is_told_and_hinders_nothing(host: Host) -> None:
    """One that cannot be read is not noted, and the others are set."""
    missing = host.change("energy preference", "policy0", "performance")
    with host.hold(missing, *host.changes) as held:
        assert set_as_wished(host) == SET
        assert [claim.error for claim in held if claim.change is missing] == ["it cannot be read"]


def test_what_could_not_be_put_back_is_not_touched(host: Host) -> None:
    """A value that the suite does not know would be refused in a note: it stays."""
    host.write(MERGING, "strange")
    with host.hold(host.change("merging", "sdx", "2")) as (held,):
        assert held.error == "it is strange, which could not be restored"
        assert not (host.folder / RESTORE_FILE).exists()

    assert host.read(MERGING) == "strange"


# -- settings that do not do as they are told ------------------------------------------------------------------------


@dataclass
class Odd:
    """A setting of memory; ``refuses`` tells, of all of them, whether a value is refused."""

    kind: str
    known: dict[str, str]
    refuses: Any = None
    seen: list[bool] = field(default_factory=list)
    note: Path | None = None
    place: str = ""
    drive: str = ""
    survives_boot: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.kind

    def accepts(self, value: str) -> bool:
        """Take all."""
        return bool(value)

    def candidates(self) -> Iterator[Setting]:
        """It is here alone."""
        yield from ()

    def read(self) -> str | None:
        """Read it."""
        return self.known.get(self.kind)

    def write(self, value: str) -> None:
        """Set it."""
        if self.note is not None:
            self.seen.append(self.note.exists())
        if self.refuses and self.refuses(self.kind, value, self.known):
            raise OSError(16, "Device or resource busy")
        self.known[self.kind] = value


@contextmanager
def odd(host: Host, known: Mapping[str, str], refuses: Any = None) -> Iterator[dict[str, Setting]]:
    """Settings of memory, by name."""
    values = dict(known)
    yield {kind: Odd(kind, values, refuses, note=host.folder / RESTORE_FILE) for kind in known}


def held_odd(host: Host, made: Mapping[str, Setting], wishes: Mapping[str, str]) -> Any:
    """Hold settings of memory."""
    changes = [Change(setting=made[kind], value=value) for kind, value in wishes.items()]
    return applied(changes, host.folder, find=lambda kind, _: made.get(kind), report=host.told.append, root=host.root)


def test_the_note_is_there_before_the_first_change(host: Host) -> None:
    """Whenever a run is killed, what it changed is told by a note."""
    with odd(host, {"a": "1", "b": "1"}) as made, held_odd(host, made, {"a": "2", "b": "2"}):
        pass

    assert all(seen for product in made.values() for seen in product.seen)  # type: ignore[attr-defined]
    assert [len(item.seen) for item in made.values()] == [2, 2]  # type: ignore[attr-defined]


def test_a_setting_that_does_not_take_is_told(host: Host) -> None:
    """The kernel's reason is kept; the value stays, and the end puts nothing back."""
    with odd(host, {"a": "1"}, lambda *_: True) as made:
        with held_odd(host, made, {"a": "2"}) as (held,):
            assert held.error == "Device or resource busy"
        assert made["a"].read() == "1"
    assert not host.told
    assert not (host.folder / RESTORE_FILE).exists()


def test_what_cannot_be_put_back_stays_noted(host: Host) -> None:
    """It is told, with the way to try again; the next run in this folder is refused until it is done."""
    with odd(host, {"a": "1"}, lambda _, value, __: value == "1") as made:
        with held_odd(host, made, {"a": "2"}):
            pass
        assert host.told == [
            "a could not be restored to 1: Device or resource busy",
            "snia-pts host --restore tries again",
        ]
        assert (host.folder / RESTORE_FILE).exists()
        with pytest.raises(HostFailed), held_odd(host, made, {"a": "3"}):
            raise AssertionError("never begun")
        with pytest.raises(HostFailed, match="could not be restored to 1"):
            restore(host.folder, find=lambda kind, _: made.get(kind), root=host.root)


def test_what_only_goes_when_another_went_is_put_back(host: Host) -> None:
    """The energy preference comes along with the governor performance, and is refused as long as that is set."""

    def refuses(kind: str, value: str, known: dict[str, str]) -> bool:
        if (kind, value) == ("governor", "performance"):
            known["preference"] = "performance"
        return kind == "preference" and known["governor"] == "performance"

    wishes = {"governor": "performance", "preference": "performance"}
    with odd(host, {"governor": "powersave", "preference": "balance"}, refuses) as made:
        with held_odd(host, made, wishes) as held:
            assert [(claim.before, claim.error) for claim in held] == [("powersave", ""), ("balance", "")]
        assert [product.read() for product in made.values()] == ["powersave", "balance"]
    assert not host.told
    assert not (host.folder / RESTORE_FILE).exists()


# -- killed runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_folder", [True, False])
def test_what_a_killed_run_left_is_put_back(host: Host, with_folder: bool) -> None:
    """With the run folder or without it; both notes go, and it is said once."""
    host.kill()
    assert set_as_wished(host) == SET
    lines = host.restore(host.folder if with_folder else None)

    assert set_as_wished(host) == FOUND
    assert lines == (f"restored what the run {host.folder} left: governor powersave, scheduler of sdx mq-deadline",)
    assert not (host.folder / RESTORE_FILE).exists()
    assert not host.register
    assert host.restore(host.folder) == ()


def test_a_value_that_a_killed_run_lost_is_reported_before_the_restore(host: Host) -> None:
    """The restore of a value that is already back is silent, so resume reads first; it changes and removes nothing."""

    def lost() -> tuple[str, ...]:
        find = partial(settings_list.find, root=host.root)
        return changes_since_kill(host.folder, find=find, root=host.root)

    assert lost() == ()
    host.kill()
    assert lost() == ()
    host.write(GOVERNOR, "powersave")
    assert lost() == (
        "governor changed from performance to powersave; measurements may have been made with either value",
    )
    assert host.read(SCHEDULER) == "none"
    assert (host.folder / RESTORE_FILE).exists()
    host.write("proc/sys/kernel/random/boot_id", "boot-2")
    assert lost() == ()


def test_an_active_runs_values_are_not_compared(host: Host) -> None:
    """Its restore file is locked: it compares them itself."""
    with host.hold():
        host.write(GOVERNOR, "powersave")
        find = partial(settings_list.find, root=host.root)
        assert changes_since_kill(host.folder, find=find, root=host.root) == ()


def test_a_deleted_run_folder_is_no_loss(host: Host) -> None:
    """The note in the register is whole: somebody who clears away the killed run does not lose what was found."""
    host.kill()
    (host.folder / RESTORE_FILE).unlink()
    host.folder.rmdir()

    assert len(host.restore()) == 1
    assert set_as_wished(host) == FOUND


def test_a_moved_run_folder_is_known_by_its_content(host: Host) -> None:
    """The register names the old place; the note at the new one goes as well."""
    host.kill()
    host.folder = host.folder.rename(host.folder.with_name("moved"))

    assert len(host.restore(host.folder)) == 1
    assert set_as_wished(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()
    assert not host.register


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_a_kill_between_the_two_notes_hinders_nothing(host: Host, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill when one note is written, or removed, and the other is not: nothing is changed, and a new run begins."""
    keep, unlink = settings._write_restore_file, Path.unlink

    def keep_one(path: Path, *more: Any) -> None:
        keep(path, *more)
        os.kill(os.getpid(), signal.SIGKILL)

    def unlink_one(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "begin":
        monkeypatch.setattr(settings, "_write_restore_file", keep_one)
    else:
        monkeypatch.setattr(Path, "unlink", unlink_one)
    child = os.fork()
    if child == 0:
        with host.hold():
            pass
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.undo()

    host.restore(host.folder)
    assert set_as_wished(host) == FOUND
    with host.hold():
        assert set_as_wished(host) == SET
    assert not host.register


def test_without_a_register_a_user_follows_his_folder(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root nothing is recorded in /var/lib; a killed run is put back by its folder alone."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 4711)
    (host.root / "var/lib").chmod(0o555)  # as for every user but root
    host.kill()

    assert not host.register
    assert host.restore() == ()
    assert set_as_wished(host) == SET
    assert len(host.restore(host.folder)) == 1
    assert set_as_wished(host) == FOUND


def test_a_run_that_goes_on_is_left_alone(host: Host) -> None:
    """A note that is locked is that of a live run: neither --restore nor another start touches its settings."""
    with host.hold():
        assert host.restore() == ()
        with pytest.raises(HostFailed, match="the run is still active"):
            host.restore(host.folder)
        assert set_as_wished(host) == SET
        assert (host.folder / RESTORE_FILE).exists()


def test_a_boot_puts_back_the_host_and_not_the_drive(host: Host) -> None:
    """After a boot what sysfs set is as it is, whatever a note says; a SCSI drive's cache is put back."""
    host.kill(*host.changes, host.change("SCSI write cache", "sdx", "disabled"))
    host.write("proc/sys/kernel/random/boot_id", "boot-2")

    assert host.restore(host.folder) == (f"restored what the run {host.folder} left: write cache of sdx enabled",)
    assert set_as_wished(host) == SET
    assert host.read("sys/block/sdx/device/scsi_disk/0:0:0:0/cache_type") == "write back"


def test_another_drive_of_that_name_is_not_touched(host: Host) -> None:
    """A drive that was plugged in since has settings of its own."""
    host.kill()
    host.write("sys/block/sdx/device/wwid", "naa.2")

    assert "scheduler of sdx is not restored: it no longer exists" in host.restore()
    assert set_as_wished(host) == ("none", "powersave")


CACHE = "sys/block/{}/device/scsi_disk/0:0:0:0/cache_type"


def test_a_drive_that_came_back_under_another_name_is_found(host: Host) -> None:
    """Its write cache, which outlives a boot, is put back where it is by now; the drive of its old name is left."""
    host.kill(host.change("SCSI write cache", "sdx", "disabled"))
    for name in ("device/model", "device/rescan", "device/scsi_disk/0:0:0:0/cache_type"):
        host.write(f"sys/block/sdy/{name}", host.read(f"sys/block/sdx/{name}"))
    host.write("sys/block/sdy/device/wwid", "naa.1")
    host.write("sys/block/sdx/device/wwid", "naa.2")

    assert host.restore(host.folder)
    assert (host.read(CACHE.format("sdy")), host.read(CACHE.format("sdx"))) == ("write back", "write through")
    assert not (host.folder / RESTORE_FILE).exists()


def test_the_cache_of_a_drive_that_is_away_stays_noted(host: Host) -> None:
    """Until it is back: nothing else would ever enable it again."""
    host.kill(host.change("SCSI write cache", "sdx", "disabled"))
    host.write("sys/block/sdx/device/wwid", "naa.2")

    with pytest.raises(HostFailed, match="is pending: the drive is missing"):
        host.restore(host.folder)
    host.write("sys/block/sdx/device/wwid", "naa.1")
    assert host.restore(host.folder)
    assert host.read(CACHE.format("sdx")) == "write back"


def test_a_note_that_cannot_be_written_changes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is told with the file; what was noted already is removed."""

    def full(path: Path, content: bytes) -> None:
        if path.parent.name == "snia-pts":
            raise OSError(28, "No space left on device")
        replace_file(path, content)

    monkeypatch.setattr("snia_pts.lab.settings.settings.replace_file", full)
    with (
        pytest.raises(
            HostFailed, match=r"cannot record the original settings \(No space left on device\); nothing was changed"
        ),
        host.hold(),
    ):
        pytest.fail("held")
    assert set_as_wished(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()


def test_what_was_taken_along_goes_back_with_it(host: Host) -> None:
    """The number of requests changes with the scheduler: it comes back too, unless somebody chose another scheduler."""
    requests = "sys/block/sdx/queue/nr_requests"
    changes = [host.change("requests", "sdx", ""), host.changes[0]]
    for scheduler, expected in (("[none]", "64"), ("[kyber]", "128")):
        host.write(requests, "64")
        host.write(SCHEDULER, "[mq-deadline]")
        with host.hold(*changes):
            host.write(requests, "128")
            host.write(SCHEDULER, scheduler)
        assert host.read(requests) == expected


# -- runs beside each other ------------------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """The folder of a second run."""
    folder = tmp_path / "second"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("owner_ends_first", [True, False])
def test_the_owner_alone_restores_what_two_runs_need(host: Host, owner_ends_first: bool, second: Path) -> None:
    """The second run uses the value, records nothing, and restores nothing, whichever ends first."""
    owner, user = host.hold(host.changes[1]), host.hold(host.changes[1], folder=second)
    owner.__enter__()
    assert user.__enter__() == ()
    assert not (second / RESTORE_FILE).exists()
    for run in (owner, user) if owner_ends_first else (user, owner):
        assert host.read(GOVERNOR) == ("powersave" if run is user and owner_ends_first else "performance")
        run.__exit__(None, None, None)

    assert host.read(GOVERNOR) == "powersave"
    assert not host.register
    assert not host.told


def test_a_killed_owner_is_restored_beside_a_run_that_used_its_value(host: Host, second: Path) -> None:
    """The next start or --restore does it, as the owner would have done at its end; the other run changes nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with host.hold(host.changes[1]):
            os.write(writer, b"x")
            signal.pause()
    os.read(reader, 1)
    with host.hold(*host.changes, folder=second) as (change,):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert change.change == host.changes[0]
        assert host.restore() == (f"restored what the run {host.folder} left: governor powersave",)
        assert set_as_wished(host) == ("none", "powersave")
    assert set_as_wished(host) == FOUND
    assert not host.told


@pytest.mark.parametrize(
    ("of_owner", "of_other", "present", "sentence"),
    [
        ("performance", "schedutil", "powersave", "keeps it at performance, and this run needs schedutil"),
        ("performance", "", "powersave", "keeps it at performance, and this run varies it"),
        ("performance", "", "performance", "keeps it at performance, and this run varies it"),
        ("", "performance", "performance", "varies it, and this run needs performance"),
        ("", "", "powersave", "varies it, and this run varies it"),
    ],
)
def test_a_run_that_needs_another_value_than_the_owner_is_refused(
    host: Host, second: Path, of_owner: str, of_other: str, present: str, sentence: str
) -> None:
    """One sentence names the owner's folder and process, and the remedy; the refused run has changed nothing."""
    host.write(GOVERNOR, present)
    needed = [host.changes[0], host.change("governor", "policy0", of_other)]
    with host.hold(host.change("governor", "policy0", of_owner)):
        with pytest.raises(TargetBusy) as refused, host.hold(*needed, folder=second):
            pytest.fail("applied")
        assert host.read(SCHEDULER) == "mq-deadline"
        assert not (second / RESTORE_FILE).exists()
    assert str(refused.value).startswith(
        f"governor is in use: the run in {host.folder} (process {os.getpid()}) {sentence}. "
    )
    assert f"Wait until that run has ended; snia-pts status {host.folder} shows" in refused.value.hint


def test_the_same_setting_of_another_drive_has_another_owner(host: Host, second: Path) -> None:
    """The owner's drive is gone, and another one has its name."""
    with host.hold(host.changes[0]):
        host.write("sys/block/sdx/device/wwid", "naa.2")
        with host.hold(host.change("scheduler", "sdx", "kyber"), folder=second):
            assert host.read(SCHEDULER) == "kyber"


# -- notes of strangers ----------------------------------------------------------------------------------------------


def noted(**changes: Any) -> dict[str, Any]:
    """Return a note that would be followed, but for ``changes``."""
    entry = {"kind": "merging", "place": "sdx", "drive": "DISK; naa.1", "before": "2", "value": "0", **changes}
    return {"format": 1, "run": "/nowhere", "boot": "boot-1", "changes": [entry]}


def test_the_note_of_these_tests_would_be_followed(host: Host) -> None:
    """So that what follows is refused for what is wrong with it."""
    host.leave(json.dumps(noted()).encode())

    assert len(host.restore(host.folder)) == 1
    assert host.read(MERGING) == "2"


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"format": 1}',
        b" " * (2 << 20),
        *(
            json.dumps(item).encode()
            for item in (
                {**noted(), "format": 2},
                {**noted(), "changes": {}},
                noted(kind="shutdown"),
                noted(kind="sys/block/sdx/queue/nomerges"),
                noted(place="../../../etc"),
                noted(place="sdx/../sdx"),
                noted(place=""),
                noted(place="/sys"),
                noted(place="sdx\n"),
                noted(place=7),
                noted(before="3"),
                noted(before=""),
                noted(before="2\n1"),
                noted(before=None),
                noted(value="x" * 9999),
                noted(kind="NVMe write cache", place="nvme0; reboot", before="enabled", value="disabled"),
                noted(kind="NVMe write cache", place="nvme0", before="off", value="disabled"),
                noted(kind="SCSI write cache", place="../sdx", before="enabled", value="disabled"),
            )
        ),
    ],
)
def test_a_hostile_note_changes_nothing(host: Host, note: bytes) -> None:
    """What is no note of this suite, or names what it does not set, is refused with a sentence; everything stays."""
    host.leave(note)
    before = content(host.root / "sys")

    with pytest.raises(HostFailed, match="is ignored") as refused:
        host.restore(host.folder)
    assert content(host.root / "sys") == before
    assert "docs/host.rst" in refused.value.hint
    assert len(str(refused.value)) < 500


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom the register is for")
@pytest.mark.parametrize("how", ["another array", "another value", "another host's", "no register", "a changeable one"])
def test_root_follows_no_note_that_the_register_does_not_have(host: Host, how: str) -> None:
    """A settings.json of root's in a folder that somebody prepared: well formed, of this boot, of this drive."""
    host.kill(host.change("merging", "sdx", "2"))
    note, register = json.loads((host.folder / RESTORE_FILE).read_text()), host.register[0]
    if how == "another array":
        place = "mdadm 01234567:89abcdef:01234567:89abcdef"
        note["changes"] = [{"kind": "array", "place": place, "drive": "", "before": "none", "value": ""}]
    elif how == "another value":
        note["changes"][0]["before"] = "1"
    elif how == "a changeable one":
        register.parent.chmod(0o777)
    else:
        register.unlink()
        if how == "no register":
            register.parent.rmdir()
    (host.folder / RESTORE_FILE).write_text(json.dumps(note, indent=1))
    before = content(host.root / "sys")

    with pytest.raises(HostFailed, match="/var/lib/snia-pts has no copy of it") as refused:
        host.restore(host.folder)
    changed = {name for name, text in content(host.root / "sys").items() if before[name] != text}
    assert changed <= {str(host.root / MERGING)}  # put back by the register's own note, which is sound
    assert host.read(MERGING) == ("0" if how in ("another array", "another value") else "2")
    assert "by hand" in refused.value.hint


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_no_note(host: Host, kind: str) -> None:
    """Nobody waits for a pipe, or follows a link."""
    place = host.folder / RESTORE_FILE
    if kind == "link":
        (host.folder / "elsewhere").write_text(json.dumps(noted()))
        place.symlink_to(host.folder / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(HostFailed, match="is ignored"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_another_users_note_is_not_followed(host: Host) -> None:
    """Root puts back what root set."""
    (host.folder / RESTORE_FILE).write_text(json.dumps(noted()))
    os.chown(host.folder / RESTORE_FILE, 65534, 65534)

    with pytest.raises(HostFailed, match="another user wrote it"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_restore_file_that_other_users_may_change_is_not_followed(host: Host, mode: int) -> None:
    """Neither by its group nor by all users, in the run folder and in the state directory."""
    host.leave(json.dumps(noted()).encode())
    for path in (host.folder / RESTORE_FILE, *host.register):
        path.chmod(mode)

    (line,) = host.restore()
    assert line.endswith("is ignored: other users may change it")
    with pytest.raises(HostFailed, match="other users may change it"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom the state directory is for")
@pytest.mark.parametrize("how", ["a symlink", "open to others", "another user's"])
def test_root_trusts_no_copy_that_another_user_may_have_written(host: Host, how: str, tmp_path: Path) -> None:
    """A file in the state directory that is not followed itself does not vouch for one in a run folder either."""
    host.leave(json.dumps(noted()).encode())
    (copy,) = host.register
    if how == "a symlink":
        copy = copy.rename(tmp_path / "elsewhere")
        (host.root / REGISTER / "0.json").symlink_to(copy)
    elif how == "open to others":
        copy.chmod(0o666)
    else:
        os.chown(copy, 65534, 65534)

    with pytest.raises(HostFailed, match="/var/lib/snia-pts has no copy of it"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom the state directory is for")
def test_root_compares_no_value_of_a_file_that_it_would_not_follow(host: Host) -> None:
    """Also if there is no state directory at all: a kind of setting may start a program to read its value."""
    (host.folder / RESTORE_FILE).write_text(json.dumps(noted(value="1")))
    find = partial(settings_list.find, root=host.root)

    host.write("var/lib/snia-pts", "not a directory")
    assert changes_since_kill(host.folder, find=find, root=host.root) == ()


@pytest.mark.parametrize("how", ["link", "open to others", "another user's"])
def test_a_folder_in_run_that_others_can_write_is_not_used(host: Host, how: str, tmp_path: Path) -> None:
    """Neither are notes taken from it nor put into it; the run is held all the same."""
    place = host.root / REGISTER
    there = tmp_path / "there" if how == "link" else place
    there.mkdir()
    if how == "link":
        place.symlink_to(there)
    elif how == "open to others":
        place.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(place, 65534, 65534)
    else:
        pytest.skip("needs root to give a folder away")
    (there / "0.json").write_text(json.dumps(noted()))

    assert host.restore() == ()
    assert host.read(MERGING) == "0"
    with host.hold():
        assert set_as_wished(host) == SET
    assert set_as_wished(host) == FOUND
    assert [path.name for path in there.iterdir()] == ["0.json"]


def content(tree: Path) -> dict[str, str]:
    """Return every file of a tree with what it holds."""
    return {str(path): path.read_text() for path in tree.rglob("*") if path.is_file()}
