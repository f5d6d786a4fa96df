"""The write cache: set as the class requires, read back from the drive, checked after each purge, and restored."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snia_pts.errors import ToolMissing
from snia_pts.lab.device.target_claim import claim_target as hold_target
from snia_pts.lab.host.conditions import with_expected_cache
from snia_pts.lab.host.configurator import HostConfigurator as HostStage
from snia_pts.lab.host.settings_list import find
from snia_pts.lab.laboratory import Laboratory
from snia_pts.lab.process import program as process
from snia_pts.lab.purge import Purger
from snia_pts.lab.settings.settings import applied
from snia_pts.lab.settings.write_cache import NvmeCache, ScsiCache, VirtioCache, WriteCache, find_write_cache
from snia_pts.model.measurement import PurgeOutcome
from snia_pts.model.steps import Purge
from snia_pts.results.target_deviations import target_deviations
from snia_pts.results.warnings import run_warnings
from snia_pts.spec import Deviation, Spec
from tests import samples, strategies
from tests.drives import MIB
from tests.hosts import FakeHost
from tests.purge.playing import Rule, Stage, altered, recorded, staged

#: As nvme-cli 2.3 says it.
ON, OFF = (f"get-feature:0x06 (Volatile Write Cache), Current value:{value}\n" for value in ("0x000001", "00000000"))
READ = ("get-feature", "--feature-id=6")


def nvme_rules(*, vwc: int = 7, obeys: bool = True) -> list[Rule]:
    """Return the rules of an NVMe drive, whose state is ``on`` or ``off``."""
    return [
        Rule(when=("id-ctrl", "/dev/nvme0"), says=altered("nvme-id-ctrl", vwc=vwc)),
        Rule(when=(*READ, "/dev/nvme0"), state="on", says=ON),
        Rule(when=(*READ, "/dev/nvme0"), state="off", says=OFF),
        Rule(when=("set-feature", "--feature-id=6", "--value=0", "/dev/nvme0"), then="off" if obeys else "on"),
        Rule(when=("set-feature", "--feature-id=6", "--value=1", "/dev/nvme0"), then="on"),
    ]


class Drive:
    """An NVMe drive or a SCSI disk of a fake host, with simulated programs."""

    def __init__(self, stage: Stage, host: FakeHost, block: Path) -> None:
        self.stage, self.host, self.block = stage, host, block
        self.evidence = stage.evidence / "00000-write-cache"

    def cache(self, wanted: str = "disabled", *, keep: bool = False) -> WriteCache:
        """Return its write cache, for a run that requires a state."""
        return WriteCache(strategies.dut(), self.block, wanted, keep=keep, root=self.host.root)

    @contextmanager
    def run(self, cache: WriteCache) -> Iterator[tuple[str, str]]:
        """Set it as a run does; yield the reported state and its source."""
        changes = cache.changes(self.evidence)
        with applied(
            changes,
            self.stage.evidence.parent,
            find=partial(find, root=self.host.root),
            report=print,
            root=self.host.root,
        ) as applied_changes:
            status = cache.status(self.evidence, applied_changes)
            yield status.state, status.source


@pytest.fixture
def nvme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    """An NVMe drive whose cache is on."""
    host = FakeHost(tmp_path / "host")
    block = host.nvme()
    for name in ("model", "serial"):
        host.write(f"sys/class/nvme/nvme0/{name}", (block / "device" / name).read_text())
    with staged(tmp_path, monkeypatch, "nvme0n1") as stage:
        stage.play("nvme", *nvme_rules())
        stage.state = "on"
        yield Drive(stage, host, block)


def scsi(host: FakeHost, stage: Stage, state: str = "write back", **files: str) -> Drive:
    """Return a SCSI disk."""
    block = host.disk("sdx", device__rescan="", **{"device__scsi_disk__0:0:0:0__cache_type": f"{state}\n", **files})
    return Drive(stage, host, block)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Yield a stage of simulated programs for a SCSI disk."""
    with staged(tmp_path, monkeypatch, "sdx") as made:
        yield made


# -- NVMe ------------------------------------------------------------------------------------------------------------


def test_the_cache_of_an_nvme_drive_is_set_read_back_and_restored(nvme: Drive) -> None:
    """By feature 06h of the controller, not saved; the state comes from the drive, with evidence."""
    with nvme.run(nvme.cache()) as status:
        assert status == ("disabled", "NVMe feature 06h; set for the run, was enabled")
        assert nvme.stage.state == "off"

    assert nvme.stage.state == "on"
    sets = [command for command in nvme.stage.commands if "set-feature" in command]
    assert [command[-1] for command in sets] == ["--value=0", "--value=1"]
    assert not any("--save" in command or "-s" in command for command in sets)
    assert (nvme.stage.evidence / "00000-write-cache-set.process.json").exists()
    assert (nvme.stage.evidence / "00000-write-cache-read.process.json").exists()


def test_a_drive_without_a_volatile_cache_is_reported_as_none(nvme: Drive) -> None:
    """Its feature is neither read nor set; it is equivalent to disabled, so only the client class has a deviation."""
    nvme.stage.play("nvme", *nvme_rules(vwc=6))
    with nvme.run(nvme.cache()) as status:
        assert status == ("none", "NVMe identify: no volatile write cache")

    assert {command[1] for command in nvme.stage.commands} == {"id-ctrl"}
    for test_class, deviates in (("enterprise", False), ("client", True)):
        spec: Spec = samples.iops_result(test_class=test_class).facts.spec
        found = target_deviations(strategies.dut(write_cache="none"), spec)
        assert any(entry.what == "write cache" for entry in found) == deviates


def test_a_drive_that_ignores_the_command_is_a_deviation(nvme: Drive) -> None:
    """It reports success but stays enabled: the state is read back, and the deviation has it."""
    nvme.stage.play("nvme", *nvme_rules(obeys=False))
    with nvme.run(nvme.cache()) as (state, source):
        assert (state, source) == ("enabled", "NVMe feature 06h; could not be set: it is enabled after it was set")

    spec = samples.iops_result().facts.spec
    (deviation,) = target_deviations(strategies.dut(write_cache=state, write_cache_source=source), spec)
    assert deviation.actual == f"{state} ({source})"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule(complains="Permission denied", exits=1), "nvme failed: Permission denied"),
        (Rule(says="no JSON"), "not reported by nvme id-ctrl"),
        (Rule(says="[]"), "not reported by nvme id-ctrl"),
        (Rule(says='{"vwc": "often"}'), "not reported by nvme id-ctrl"),
    ],
)
def test_the_state_of_a_drive_that_does_not_answer_is_unknown(nvme: Drive, rule: Rule, text: str) -> None:
    """Nothing is set, because it could not be restored."""
    nvme.stage.play("nvme", rule)
    with nvme.run(nvme.cache()) as status:
        assert status == ("unknown", text)
    assert not any("set-feature" in command for command in nvme.stage.commands)


def test_a_missing_tool_is_a_deviation(nvme: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host without nvme-cli the run has a deviation with this reason, and does not fail."""

    def missing(argv: tuple[str, ...], **_: object) -> process.Finished:
        raise ToolMissing(program=argv[0], package="nvme-cli")

    monkeypatch.setattr(process, "run", missing)
    with nvme.run(nvme.cache()) as status:
        assert status == ("unknown", "nvme is not installed")


def test_keep_write_cache_does_not_set_it(nvme: Drive) -> None:
    """--keep-write-cache only reads it, after the purge too."""
    with nvme.run(cache := nvme.cache(keep=True)) as status:
        assert status == ("enabled", "NVMe feature 06h; left as it was")
        nvme.stage.state = "off"
        remarks, (deviation,) = cache.after_purge(nvme.evidence)

    assert not remarks
    assert (deviation.what, deviation.standard) == ("write cache after the purge", "enabled")
    assert "this run does not change it" in deviation.actual
    assert not any("set-feature" in command for command in nvme.stage.commands)


def test_a_plan_states_what_the_run_will_set(nvme: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan queries and sets nothing; it states the future state, with --keep-write-cache the present one."""
    monkeypatch.setattr("snia_pts.lab.host.conditions.block_directory", lambda *_: nvme.block)
    dut = strategies.dut(path="/dev/null", write_cache="enabled")

    planned = with_expected_cache(dut, "disabled", keep=False, root=nvme.host.root)
    assert (planned.write_cache, planned.write_cache_source) == ("disabled", "to be set for the run")
    assert with_expected_cache(dut, "disabled", keep=True, root=nvme.host.root).write_cache == "enabled"
    assert not any("set-feature" in command for command in nvme.stage.commands)


def test_the_restore_record_of_a_silent_drive_is_kept(nvme: Drive, capsys: pytest.CaptureFixture[str]) -> None:
    """The drive is the same, but its setting is unknown: this is reported, and the restore is tried again later."""
    with nvme.run(nvme.cache()):
        nvme.stage.state = "mute"
        nvme.stage.play("nvme", *nvme_rules(), Rule(when=READ, says="get-feature:0x06"))

    assert "could not be restored to enabled: its value cannot be read" in capsys.readouterr().out
    assert (nvme.stage.evidence.parent / "settings.json").exists()


@pytest.mark.parametrize("value", ["0x00000001", "0x1", "00000001"])
def test_the_output_of_every_version_of_nvme_cli_is_parsed(nvme: Drive, value: str) -> None:
    """Numbers have any width, and 0x, except some that are 0."""
    nvme.stage.play("nvme", nvme_rules()[0], Rule(when=READ, says=f"get-feature:0x6 (Name), Current value:{value}\n"))

    assert nvme.cache().status().state == "enabled"


# -- purges ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_cache_that_a_purge_reset_is_set_again(nvme: Drive) -> None:
    """Some drives are back at their default: the state is read, set again, and reported as a warning."""
    with nvme.run(cache := nvme.cache()):
        assert cache.after_purge(nvme.evidence) == ((), ())
        nvme.stage.state = "on"
        (remark,), deviations = cache.after_purge(nvme.evidence)
        assert nvme.stage.state == "off"

    assert not deviations
    assert remark == (
        "the purge left the write cache enabled; it was set to disabled again, read back by NVMe feature 06h"
    )


def test_a_cache_that_cannot_be_set_again_is_a_deviation(nvme: Drive) -> None:
    """The measurements after that purge are with another cache than the report's header says."""
    with nvme.run(cache := nvme.cache()):
        nvme.stage.play("nvme", *nvme_rules(obeys=False))
        nvme.stage.state = "on"
        remarks, (deviation,) = cache.after_purge(nvme.evidence)

    assert not remarks
    assert (deviation.standard, deviation.actual.partition(" ")[0]) == ("disabled", "enabled")


def test_a_cache_that_changed_by_itself_is_reported(nvme: Drive) -> None:
    """A drive that was reset has its default again; the restore at the end finds nothing to do and says nothing."""
    with nvme.run(cache := nvme.cache()):
        assert cache.setting_changes(nvme.evidence) == ()
        nvme.stage.state = "on"
        (line,) = cache.setting_changes(nvme.evidence)

    assert line == (
        "write cache of nvme0 changed from disabled to enabled; measurements may have been made with either value"
    )


def test_a_cache_that_was_not_set_is_compared_too(nvme: Drive) -> None:
    """With --keep-write-cache the suite does not set it, but its state is in the header of the report."""
    with nvme.run(cache := nvme.cache(keep=True)):
        nvme.stage.state = "off"
        (line,) = cache.setting_changes(nvme.evidence)

    assert "changed from enabled to disabled" in line


def test_the_laboratory_checks_the_cache_after_each_purge(tmp_path: Path) -> None:
    """Remarks about the cache are part of the outcome of the purge, and warnings of the result."""

    class Forgetful(WriteCache):
        """A cache that every purge resets."""

        def after_purge(self, evidence: Path) -> tuple[tuple[str, ...], tuple[Deviation, ...]]:
            deviation = Deviation(what="cache", standard="disabled", actual=evidence.name, clause="")
            return ("it was set again",), (deviation,)

    with hold_target(tmp_path / "x.img", size_bytes=4 * MIB, overwrite=False) as target:
        purger, cache = Purger(requested="punch-hole"), Forgetful(target.dut, None, "disabled")
        no_engine: Any = SimpleNamespace(count_idle_io=lambda: None)
        around = HostStage(target.dut.path, 0)
        lab = Laboratory(target, no_engine, purger=purger, cache=cache, configurator=around, seed=1, evidence=tmp_path)
        (purged,) = lab.perform(Purge(part=""))

    assert isinstance(purged, PurgeOutcome)
    assert [item.actual for item in purged.deviations if item.what == "cache"] == ["00000-purge-write-cache"]
    result = dataclasses.replace(samples.iops_result(), purges=(("", purged),))
    assert [warning.detail for warning in run_warnings(result) if warning.what == "purge"] == ["it was set again"]
    assert purged.deviations[-1] in result.deviations


# -- SCSI, SATA, virtio ----------------------------------------------------------------------------------------------


def test_a_scsi_disk_is_set_by_the_kernel_and_read_again(stage: Stage, tmp_path: Path) -> None:
    """A write to cache_type sends MODE SELECT; before a reading, the kernel has to query the disk again."""
    drive = scsi(FakeHost(tmp_path / "host"), stage, device__vendor="SEAGATE")
    file = drive.block / "device/scsi_disk/0:0:0:0/cache_type"
    with drive.run(drive.cache()) as status:
        assert status == ("disabled", "SCSI caching mode page; set for the run, was enabled")
        assert file.read_text() == "write through"
        assert (drive.block / "device/rescan").read_text() == "1"

    assert file.read_text() == "write back"


@pytest.mark.parametrize(("text", "set_to"), [("write back", "write through"), ("write back, no read (daft)", "none")])
def test_the_read_cache_is_not_changed(stage: Stage, tmp_path: Path, text: str, set_to: str) -> None:
    """Only WCE of the mode page is changed."""
    drive = scsi(FakeHost(tmp_path / "host"), stage, text)
    file = drive.block / "device/scsi_disk/0:0:0:0/cache_type"
    with drive.run(drive.cache()):
        assert file.read_text() == set_to

    assert file.read_text() == text


def test_a_sata_disk_is_read_by_identify(stage: Stage, tmp_path: Path) -> None:
    """The kernel keeps a copy of an old answer of an ATA drive, so hdparm queries the drive."""
    drive = scsi(FakeHost(tmp_path / "host"), stage, device__vendor="ATA     ")
    stage.play("hdparm", Rule(when=("-W",), says="\n/dev/sdx:\n write-caching =  0 (off)\n"))
    assert drive.cache().status() == dataclasses.replace(
        drive.cache().status(), state="disabled", source="ATA IDENTIFY"
    )

    stage.play("hdparm", Rule(when=("-W",), says="\n/dev/sdx:\n write-caching = not supported\n"))
    status = drive.cache().status()
    assert (status.state, status.source) == ("enabled", "as reported by the kernel; not reported by the drive")


def test_a_plan_does_not_query_the_disk(stage: Stage, tmp_path: Path) -> None:
    """A plan touches nothing: it starts no rescan and no program."""
    drive = scsi(FakeHost(tmp_path / "host"), stage)
    assert drive.cache().expected_status().source == "to be set for the run"

    assert (drive.block / "device/rescan").read_text() == ""
    assert not stage.commands


def test_a_plan_states_the_deviation_of_a_user_without_root(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has the deviation that the run will have."""
    monkeypatch.setattr("snia_pts.lab.settings.write_cache.os.access", lambda *_: False)
    status = scsi(FakeHost(tmp_path / "host"), stage).cache().expected_status()

    assert (status.state, status.source) == ("enabled", "as reported by the kernel; this user may not set it")


def test_a_virtual_disk_is_set_as_its_host_allows(stage: Stage, tmp_path: Path) -> None:
    """virtio-blk has cache_type beside its queue."""
    host = FakeHost(tmp_path / "host")
    drive = Drive(stage, host, host.disk("vdx", place="pci0000:00/virtio1/block", cache_type="write back\n"))
    with drive.run(drive.cache()) as status:
        assert status == ("disabled", "virtio cache_type; set for the run, was enabled")
    assert (drive.block / "cache_type").read_text() == "write back"


def test_each_kind_of_drive_has_its_write_cache(tmp_path: Path) -> None:
    """NVMe by the controller of any namespace, SCSI by its disk, and virtio; other devices have none."""
    host = FakeHost(tmp_path)
    host.nvme(3)
    assert find_write_cache(host.root / "sys/block/nvme3n1", host.root) == NvmeCache(place="nvme3", root=host.root)
    disk = host.disk("sda", **{"device__scsi_disk__1:0:0:0__cache_type": "write back"})
    assert find_write_cache(disk, host.root) == ScsiCache(place="sda", root=host.root)
    virtual = host.disk("vda", place="virtio0/block", cache_type="write back")
    assert find_write_cache(virtual, host.root) == VirtioCache(place="vda", root=host.root)
    assert find_write_cache(host.disk("mmcblk0", place="mmc0/block"), host.root) is None


@pytest.mark.parametrize("kind", ["drive", "loop device", "virtual device", "file"])
def test_a_cache_that_cannot_be_set_is_reported_with_the_reason(kind: str, tmp_path: Path) -> None:
    """The state is the kernel's, or unknown, with the reason why nothing was set."""
    dut = strategies.dut(kind=kind, write_cache="unknown" if kind == "file" else "enabled")
    cache = WriteCache(dut, None, "disabled", root=tmp_path)
    assert cache.changes(tmp_path) == ()
    status = cache.status()

    assert status.state == dut.write_cache
    assert re.search("not reported for|does not support setting|no write cache that can be set", status.source)
    assert cache.after_purge(tmp_path) == ((), ())


def test_recorded_identify_is_that_of_a_drive_with_a_cache() -> None:
    """Otherwise the rules above would change nothing."""
    assert '"vwc"' in recorded("nvme-id-ctrl")
