"""Settings changed for a run are restored: at its end, after SIGKILL, and beside other runs."""

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
from snia_pts.lab.settings import restore_files
from snia_pts.lab.settings.restore_files import RESTORE_FILE
from snia_pts.lab.settings.settings import (
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
    reported: list[str] = field(default_factory=list)

    @classmethod
    def made(cls, place: Path) -> Host:
        """Make a host."""
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
        """Return the content of a file."""
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
    def apply(self, *changes: Change, folder: Path | None = None) -> Iterator[tuple[AppliedChange, ...]]:
        """Apply changes."""
        find = partial(settings_list.find, root=self.root)
        wanted = changes or tuple(self.changes)
        with applied(wanted, folder or self.folder, find=find, report=self.reported.append, root=self.root) as status:
            yield status

    def restore(self, folder: Path | None = None) -> tuple[str, ...]:
        """Restore what is left."""
        return restore(*filter(None, [folder]), find=partial(settings_list.find, root=self.root), root=self.root)

    @property
    def state_files(self) -> list[Path]:
        """Return the restore files in the state directory."""
        return list((self.root / REGISTER).glob("*"))

    def leave(self, content: bytes) -> None:
        """Write a restore file in the run folder, and its copy in the state directory."""
        (self.root / REGISTER).mkdir(mode=0o700, exist_ok=True)
        for place in (self.folder / RESTORE_FILE, self.root / REGISTER / restore_file_name(Path("/nowhere"))):
            place.write_bytes(content)

    def kill(self, *changes: Change) -> None:
        """Kill a run while its changes are applied."""
        child = os.fork()
        if child == 0:
            with self.apply(*changes):
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a host."""
    return Host.made(tmp_path)


def set_as_desired(host: Host) -> tuple[str, str]:
    """Return scheduler and governor."""
    return host.read(SCHEDULER), host.read(GOVERNOR)


SET, FOUND = ("none", "performance"), ("mq-deadline", "powersave")


# -- the end of a run ------------------------------------------------------------------------------------------------


def test_settings_are_applied_and_restored(host: Host) -> None:
    """In the block they have the desired values; then they are restored, without a restore file."""
    with host.apply() as applied_changes:
        assert set_as_desired(host) == SET
        assert [(claim.before, claim.error) for claim in applied_changes] == [("mq-deadline", ""), ("powersave", "")]
        assert (host.folder / RESTORE_FILE).exists()
        assert len(host.state_files) == 1

    assert set_as_desired(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()
    assert not host.state_files
    assert not host.reported


def test_an_exception_restores_them_too(host: Host) -> None:
    """It does not matter how the block ends."""
    with pytest.raises(KeyboardInterrupt), host.apply():
        raise KeyboardInterrupt

    assert set_as_desired(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()


def test_a_setting_that_already_has_its_value_is_owned_and_not_restored(host: Host) -> None:
    """Nothing is set or reported; if somebody else changes it, that stays, also after a kill."""
    for end in ("its end", "a kill"):
        host.write(SCHEDULER, "[none]")
        if end == "its end":
            with host.apply(host.changes[0]) as changes:
                assert changes == ()
                assert (host.folder / RESTORE_FILE).exists()
                host.write(SCHEDULER, "[kyber]")
        else:
            host.kill(host.changes[0])
            host.write(SCHEDULER, "[kyber]")
            assert host.restore(host.folder) == ()
        assert host.read(SCHEDULER) == "kyber"
        assert not host.reported
        assert not (host.folder / RESTORE_FILE).exists()


def test_a_value_of_another_program_is_kept_and_reported(host: Host) -> None:
    """A value that is neither the run's nor the old one is not overwritten; the other settings are restored."""
    with host.apply():
        host.write(SCHEDULER, "[kyber]")

    assert set_as_desired(host) == ("kyber", "powersave")
    (line,) = host.reported
    assert (
        "scheduler of sdx is left as it is: it is kyber, "
        "neither the run's value (none) nor the original one (mq-deadline" in line
    )
    assert not (host.folder / RESTORE_FILE).exists()


def test_a_missing_setting_is_reported(host: Host) -> None:
    """A setting that cannot be read is not recorded, and the others are set."""
    missing = host.change("energy preference", "policy0", "performance")
    with host.apply(missing, *host.changes) as applied_changes:
        assert set_as_desired(host) == SET
        assert [claim.error for claim in applied_changes if claim.change is missing] == ["it cannot be read"]


def test_a_setting_that_cannot_be_restored_is_not_set(host: Host) -> None:
    """A restore file with a value unknown to the suite would be refused, so the setting stays as it is."""
    host.write(MERGING, "strange")
    with host.apply(host.change("merging", "sdx", "2")) as (applied_change,):
        assert applied_change.error == "it is strange, which could not be restored"
        assert not (host.folder / RESTORE_FILE).exists()

    assert host.read(MERGING) == "strange"


# -- settings that a write does not change ------------------------------------------------------------------------


@dataclass
class MemorySetting:
    """A setting in memory; ``refuses`` tells, for all of them, whether a value is refused."""

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
        """Return its name."""
        return self.kind

    def accepts(self, value: str) -> bool:
        """Accept every value."""
        return bool(value)

    def candidates(self) -> Iterator[Setting]:
        """Return this setting only."""
        yield from ()

    def read(self) -> str | None:
        """Return its value."""
        return self.known.get(self.kind)

    def write(self, value: str) -> None:
        """Set its value."""
        if self.note is not None:
            self.seen.append(self.note.exists())
        if self.refuses and self.refuses(self.kind, value, self.known):
            raise OSError(16, "Device or resource busy")
        self.known[self.kind] = value


@contextmanager
def memory_settings(host: Host, known: Mapping[str, str], refuses: Any = None) -> Iterator[dict[str, Setting]]:
    """Return settings in memory by name."""
    values = dict(known)
    yield {kind: MemorySetting(kind, values, refuses, note=host.folder / RESTORE_FILE) for kind in known}


def applied_memory(host: Host, made: Mapping[str, Setting], wishes: Mapping[str, str]) -> Any:
    """Apply changes of settings in memory."""
    changes = [Change(setting=made[kind], value=value) for kind, value in wishes.items()]
    return applied(
        changes, host.folder, find=lambda kind, _: made.get(kind), report=host.reported.append, root=host.root
    )


def test_the_restore_file_is_written_before_the_first_change(host: Host) -> None:
    """Whenever a run is killed, the restore file has all its changes."""
    with memory_settings(host, {"a": "1", "b": "1"}) as made, applied_memory(host, made, {"a": "2", "b": "2"}):
        pass

    assert all(seen for product in made.values() for seen in product.seen)  # type: ignore[attr-defined]
    assert [len(item.seen) for item in made.values()] == [2, 2]  # type: ignore[attr-defined]


def test_a_setting_that_keeps_its_value_is_reported(host: Host) -> None:
    """The kernel's reason is kept; the value stays, and nothing is restored at the end."""
    with memory_settings(host, {"a": "1"}, lambda *_: True) as made:
        with applied_memory(host, made, {"a": "2"}) as (applied_change,):
            assert applied_change.error == "Device or resource busy"
        assert made["a"].read() == "1"
    assert not host.reported
    assert not (host.folder / RESTORE_FILE).exists()


def test_a_failed_restore_stays_recorded(host: Host) -> None:
    """The message says how to retry; the next run in this folder is refused until that is done."""
    with memory_settings(host, {"a": "1"}, lambda _, value, __: value == "1") as made:
        with applied_memory(host, made, {"a": "2"}):
            pass
        assert host.reported == [
            "a could not be restored to 1: Device or resource busy",
            "snia-pts host --restore tries again",
        ]
        assert (host.folder / RESTORE_FILE).exists()
        with pytest.raises(HostFailed), applied_memory(host, made, {"a": "3"}):
            raise AssertionError("never begun")
        with pytest.raises(HostFailed, match="could not be restored to 1"):
            restore(host.folder, find=lambda kind, _: made.get(kind), root=host.root)


def test_dependent_settings_are_restored_in_order(host: Host) -> None:
    """The governor performance sets the energy preference, and refuses changes of it while it is active."""

    def refuses(kind: str, value: str, known: dict[str, str]) -> bool:
        if (kind, value) == ("governor", "performance"):
            known["preference"] = "performance"
        return kind == "preference" and known["governor"] == "performance"

    wishes = {"governor": "performance", "preference": "performance"}
    with memory_settings(host, {"governor": "powersave", "preference": "balance"}, refuses) as made:
        with applied_memory(host, made, wishes) as applied_changes:
            assert [(claim.before, claim.error) for claim in applied_changes] == [("powersave", ""), ("balance", "")]
        assert [product.read() for product in made.values()] == ["powersave", "balance"]
    assert not host.reported
    assert not (host.folder / RESTORE_FILE).exists()


# -- killed runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_folder", [True, False])
def test_changes_of_a_killed_run_are_restored(host: Host, with_folder: bool) -> None:
    """This works with and without the run folder; both files are removed, and one message is printed."""
    host.kill()
    assert set_as_desired(host) == SET
    lines = host.restore(host.folder if with_folder else None)

    assert set_as_desired(host) == FOUND
    assert lines == (f"restored what the run {host.folder} left: governor powersave, scheduler of sdx mq-deadline",)
    assert not (host.folder / RESTORE_FILE).exists()
    assert not host.state_files
    assert host.restore(host.folder) == ()


def test_a_value_that_a_killed_run_lost_is_reported_before_the_restore(host: Host) -> None:
    """A value that is already restored gives no message, so resume reads first; it changes and removes nothing."""

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
    """Its restore file is locked: the active run compares them itself."""
    with host.apply():
        host.write(GOVERNOR, "powersave")
        find = partial(settings_list.find, root=host.root)
        assert changes_since_kill(host.folder, find=find, root=host.root) == ()


def test_a_deleted_run_folder_does_not_prevent_the_restore(host: Host) -> None:
    """The file in the state directory is complete: deleting a killed run's folder does not lose the old values."""
    host.kill()
    (host.folder / RESTORE_FILE).unlink()
    host.folder.rmdir()

    assert len(host.restore()) == 1
    assert set_as_desired(host) == FOUND


def test_a_moved_run_folder_is_recognised_by_its_content(host: Host) -> None:
    """The state directory has the old path; the restore file at the new one is removed as well."""
    host.kill()
    host.folder = host.folder.rename(host.folder.with_name("moved"))

    assert len(host.restore(host.folder)) == 1
    assert set_as_desired(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()
    assert not host.state_files


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_a_kill_between_the_two_files_is_harmless(host: Host, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only one file is written, or removed, nothing was changed, and a new run starts."""
    keep, unlink = restore_files._write, Path.unlink

    def keep_one(path: Path, *more: Any) -> None:
        keep(path, *more)
        os.kill(os.getpid(), signal.SIGKILL)

    def unlink_one(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "begin":
        monkeypatch.setattr(restore_files, "_write", keep_one)
    else:
        monkeypatch.setattr(Path, "unlink", unlink_one)
    child = os.fork()
    if child == 0:
        with host.apply():
            pass
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.undo()

    host.restore(host.folder)
    assert set_as_desired(host) == FOUND
    with host.apply():
        assert set_as_desired(host) == SET
    assert not host.state_files


def test_without_a_state_directory_the_run_folder_is_enough(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root nothing is recorded in /var/lib; a killed run is restored from its folder alone."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 4711)
    (host.root / "var/lib").chmod(0o555)  # as for every user except root
    host.kill()

    assert not host.state_files
    assert host.restore() == ()
    assert set_as_desired(host) == SET
    assert len(host.restore(host.folder)) == 1
    assert set_as_desired(host) == FOUND


def test_a_run_in_progress_is_left_alone(host: Host) -> None:
    """A locked restore file is that of a live run: neither --restore nor another start changes its settings."""
    with host.apply():
        assert host.restore() == ()
        with pytest.raises(HostFailed, match="the run is still active"):
            host.restore(host.folder)
        assert set_as_desired(host) == SET
        assert (host.folder / RESTORE_FILE).exists()


def test_a_boot_restores_the_host_but_not_the_drive(host: Host) -> None:
    """After a boot sysfs has its defaults, whatever a restore file says; a SCSI drive's cache is restored."""
    host.kill(*host.changes, host.change("SCSI write cache", "sdx", "disabled"))
    host.write("proc/sys/kernel/random/boot_id", "boot-2")

    assert host.restore(host.folder) == (f"restored what the run {host.folder} left: write cache of sdx enabled",)
    assert set_as_desired(host) == SET
    assert host.read("sys/block/sdx/device/scsi_disk/0:0:0:0/cache_type") == "write back"


def test_another_drive_of_that_name_is_not_changed(host: Host) -> None:
    """A drive that was connected later has its own settings."""
    host.kill()
    host.write("sys/block/sdx/device/wwid", "naa.2")

    assert "scheduler of sdx is not restored: it no longer exists" in host.restore()
    assert set_as_desired(host) == ("none", "powersave")


CACHE = "sys/block/{}/device/scsi_disk/0:0:0:0/cache_type"


def test_a_drive_that_came_back_under_another_name_is_found(host: Host) -> None:
    """Its write cache, which survives a boot, is restored under the new name; a drive with the old name is not."""
    host.kill(host.change("SCSI write cache", "sdx", "disabled"))
    for name in ("device/model", "device/rescan", "device/scsi_disk/0:0:0:0/cache_type"):
        host.write(f"sys/block/sdy/{name}", host.read(f"sys/block/sdx/{name}"))
    host.write("sys/block/sdy/device/wwid", "naa.1")
    host.write("sys/block/sdx/device/wwid", "naa.2")

    assert host.restore(host.folder)
    assert (host.read(CACHE.format("sdy")), host.read(CACHE.format("sdx"))) == ("write back", "write through")
    assert not (host.folder / RESTORE_FILE).exists()


def test_the_cache_of_a_missing_drive_stays_recorded(host: Host) -> None:
    """It stays recorded until the drive is back, because nothing else would enable the cache again."""
    host.kill(host.change("SCSI write cache", "sdx", "disabled"))
    host.write("sys/block/sdx/device/wwid", "naa.2")

    with pytest.raises(HostFailed, match="is pending: the drive is missing"):
        host.restore(host.folder)
    host.write("sys/block/sdx/device/wwid", "naa.1")
    assert host.restore(host.folder)
    assert host.read(CACHE.format("sdx")) == "write back"


def test_a_restore_file_that_cannot_be_written_prevents_changes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is reported with the file; a file that was already written is removed."""

    def full(path: Path, content: bytes) -> None:
        if path.parent.name == "snia-pts":
            raise OSError(28, "No space left on device")
        replace_file(path, content)

    monkeypatch.setattr("snia_pts.lab.settings.restore_files.replace_file", full)
    with (
        pytest.raises(
            HostFailed, match=r"cannot record the original settings \(No space left on device\); nothing was changed"
        ),
        host.apply(),
    ):
        pytest.fail("held")
    assert set_as_desired(host) == FOUND
    assert not (host.folder / RESTORE_FILE).exists()


def test_a_setting_changed_with_another_is_restored_with_it(host: Host) -> None:
    """The number of requests changes with the scheduler: it is restored too, unless somebody changed the scheduler."""
    requests = "sys/block/sdx/queue/nr_requests"
    changes = [host.change("requests", "sdx", ""), host.changes[0]]
    for scheduler, expected in (("[none]", "64"), ("[kyber]", "128")):
        host.write(requests, "64")
        host.write(SCHEDULER, "[mq-deadline]")
        with host.apply(*changes):
            host.write(requests, "128")
            host.write(SCHEDULER, scheduler)
        assert host.read(requests) == expected


# -- runs beside each other ------------------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Return the folder of a second run."""
    folder = tmp_path / "second"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("owner_ends_first", [True, False])
def test_only_the_owner_restores_a_shared_setting(host: Host, owner_ends_first: bool, second: Path) -> None:
    """The second run uses the value, records nothing, and restores nothing, whichever run ends first."""
    owner, user = host.apply(host.changes[1]), host.apply(host.changes[1], folder=second)
    owner.__enter__()
    assert user.__enter__() == ()
    assert not (second / RESTORE_FILE).exists()
    for run in (owner, user) if owner_ends_first else (user, owner):
        assert host.read(GOVERNOR) == ("powersave" if run is user and owner_ends_first else "performance")
        run.__exit__(None, None, None)

    assert host.read(GOVERNOR) == "powersave"
    assert not host.state_files
    assert not host.reported


def test_a_killed_owner_is_restored_beside_a_run_with_its_value(host: Host, second: Path) -> None:
    """The next start or --restore does what the owner would have done at its end; the other run changes nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with host.apply(host.changes[1]):
            os.write(writer, b"x")
            signal.pause()
    os.read(reader, 1)
    with host.apply(*host.changes, folder=second) as (change,):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert change.change == host.changes[0]
        assert host.restore() == (f"restored what the run {host.folder} left: governor powersave",)
        assert set_as_desired(host) == ("none", "powersave")
    assert set_as_desired(host) == FOUND
    assert not host.reported


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
    """One message names the owner's folder and process, and the remedy; the refused run has changed nothing."""
    host.write(GOVERNOR, present)
    needed = [host.changes[0], host.change("governor", "policy0", of_other)]
    with host.apply(host.change("governor", "policy0", of_owner)):
        with pytest.raises(TargetBusy) as refused, host.apply(*needed, folder=second):
            pytest.fail("applied")
        assert host.read(SCHEDULER) == "mq-deadline"
        assert not (second / RESTORE_FILE).exists()
    assert str(refused.value).startswith(
        f"governor is in use: the run in {host.folder} (process {os.getpid()}) {sentence}. "
    )
    assert f"Wait until that run has ended; snia-pts status {host.folder} shows" in refused.value.hint


def test_the_same_setting_of_another_drive_has_another_owner(host: Host, second: Path) -> None:
    """The owner's drive is gone, and another one has its name."""
    with host.apply(host.changes[0]):
        host.write("sys/block/sdx/device/wwid", "naa.2")
        with host.apply(host.change("scheduler", "sdx", "kyber"), folder=second):
            assert host.read(SCHEDULER) == "kyber"


# -- notes of strangers ----------------------------------------------------------------------------------------------


def restore_file(**changes: Any) -> dict[str, Any]:
    """Return a valid restore file with ``changes``."""
    entry = {"kind": "merging", "place": "sdx", "drive": "DISK; naa.1", "before": "2", "value": "0", **changes}
    return {"format": 1, "run": "/nowhere", "boot": "boot-1", "changes": [entry]}


def test_the_restore_file_of_these_tests_is_valid(host: Host) -> None:
    """The refusals of the following tests therefore have no other cause."""
    host.leave(json.dumps(restore_file()).encode())

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
                {**restore_file(), "format": 2},
                {**restore_file(), "changes": {}},
                restore_file(kind="shutdown"),
                restore_file(kind="sys/block/sdx/queue/nomerges"),
                restore_file(place="../../../etc"),
                restore_file(place="sdx/../sdx"),
                restore_file(place=""),
                restore_file(place="/sys"),
                restore_file(place="sdx\n"),
                restore_file(place=7),
                restore_file(before="3"),
                restore_file(before=""),
                restore_file(before="2\n1"),
                restore_file(before=None),
                restore_file(value="x" * 9999),
                restore_file(kind="NVMe write cache", place="nvme0; reboot", before="enabled", value="disabled"),
                restore_file(kind="NVMe write cache", place="nvme0", before="off", value="disabled"),
                restore_file(kind="SCSI write cache", place="../sdx", before="enabled", value="disabled"),
            )
        ),
    ],
)
def test_an_invalid_restore_file_changes_nothing(host: Host, note: bytes) -> None:
    """A file that the suite did not write, or that names other settings, is refused; nothing is changed."""
    host.leave(note)
    before = content(host.root / "sys")

    with pytest.raises(HostFailed, match="is ignored") as refused:
        host.restore(host.folder)
    assert content(host.root / "sys") == before
    assert "docs/host.rst" in refused.value.hint
    assert len(str(refused.value)) < 500


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a state directory")
@pytest.mark.parametrize(
    "how", ["another array", "another value", "another host's", "no state directory", "a changeable one"]
)
def test_root_ignores_a_restore_file_that_the_state_directory_lacks(host: Host, how: str) -> None:
    """A settings.json of root's in a folder that somebody prepared: well formed, of this boot, of this drive."""
    host.kill(host.change("merging", "sdx", "2"))
    note, state_files = json.loads((host.folder / RESTORE_FILE).read_text()), host.state_files[0]
    if how == "another array":
        place = "mdadm 01234567:89abcdef:01234567:89abcdef"
        note["changes"] = [{"kind": "array", "place": place, "drive": "", "before": "none", "value": ""}]
    elif how == "another value":
        note["changes"][0]["before"] = "1"
    elif how == "a changeable one":
        state_files.parent.chmod(0o777)
    else:
        state_files.unlink()
        if how == "no state directory":
            state_files.parent.rmdir()
    (host.folder / RESTORE_FILE).write_text(json.dumps(note, indent=1))
    before = content(host.root / "sys")

    with pytest.raises(HostFailed, match="/var/lib/snia-pts has no copy of it") as refused:
        host.restore(host.folder)
    changed = {name for name, text in content(host.root / "sys").items() if before[name] != text}
    assert changed <= {str(host.root / MERGING)}  # restored from the valid file in the state directory
    assert host.read(MERGING) == ("0" if how in ("another array", "another value") else "2")
    assert "by hand" in refused.value.hint


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_special_files_are_no_restore_files(host: Host, kind: str) -> None:
    """A pipe is not waited for, and a symlink not followed."""
    place = host.folder / RESTORE_FILE
    if kind == "link":
        (host.folder / "elsewhere").write_text(json.dumps(restore_file()))
        place.symlink_to(host.folder / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(HostFailed, match="is ignored"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_another_users_restore_file_is_ignored(host: Host) -> None:
    """Root restores only what root set."""
    (host.folder / RESTORE_FILE).write_text(json.dumps(restore_file()))
    os.chown(host.folder / RESTORE_FILE, 65534, 65534)

    with pytest.raises(HostFailed, match="another user wrote it"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_restore_file_that_other_users_can_change_is_ignored(host: Host, mode: int) -> None:
    """Its group and other users may not write it, in the run folder and in the state directory."""
    host.leave(json.dumps(restore_file()).encode())
    for path in (host.folder / RESTORE_FILE, *host.state_files):
        path.chmod(mode)

    (line,) = host.restore()
    assert line.endswith("is ignored: other users may change it")
    with pytest.raises(HostFailed, match="other users may change it"):
        host.restore(host.folder)
    assert host.read(MERGING) == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a state directory")
@pytest.mark.parametrize("how", ["a symlink", "open to others", "another user's"])
def test_root_trusts_no_copy_that_another_user_could_have_written(host: Host, how: str, tmp_path: Path) -> None:
    """An ignored file in the state directory does not confirm one in a run folder either."""
    host.leave(json.dumps(restore_file()).encode())
    (copy,) = host.state_files
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a state directory")
def test_root_compares_no_value_of_an_ignored_file(host: Host) -> None:
    """This holds without a state directory, too: reading a kind of setting may start a program."""
    (host.folder / RESTORE_FILE).write_text(json.dumps(restore_file(value="1")))
    find = partial(settings_list.find, root=host.root)

    host.write("var/lib/snia-pts", "not a directory")
    assert changes_since_kill(host.folder, find=find, root=host.root) == ()


@pytest.mark.parametrize("how", ["link", "open to others", "another user's"])
def test_a_folder_in_run_that_others_can_write_is_not_used(host: Host, how: str, tmp_path: Path) -> None:
    """Restore files are neither read from it nor written to it; the run still has its settings."""
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
    (there / "0.json").write_text(json.dumps(restore_file()))

    assert host.restore() == ()
    assert host.read(MERGING) == "0"
    with host.apply():
        assert set_as_desired(host) == SET
    assert set_as_desired(host) == FOUND
    assert [path.name for path in there.iterdir()] == ["0.json"]


def content(tree: Path) -> dict[str, str]:
    """Return every file of a tree with its content."""
    return {str(path): path.read_text() for path in tree.rglob("*") if path.is_file()}
