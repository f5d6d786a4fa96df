"""SCSI Format Unit and Sanitize: which commands the drive reports, and the wait until it is ready again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from snia_pts.errors import PurgeFailed, TargetUnfit
from snia_pts.lab.purge import METHODS, available_methods, method
from snia_pts.lab.purge.choice import choose
from snia_pts.lab.purge.method import MethodUnavailable
from snia_pts.lab.purge.scsi import _commands
from tests.purge.playing import Canned, Rule, Stage, recorded, staged

QUERIES = ("sg_opcodes", "sg_turs")
DEBUG = recorded("scsi_debug-opcodes")
FORMAT = " 04                  6    0,0    Format unit\n"
BLOCK = " 48        2        10    0,0    Sanitize, block erase\n"
CRYPTO = " 48        3        10    0,0    Sanitize, cryptographic erase\n"
UNKNOWN = Rule(complains="Report supported operation codes: Illegal request, Invalid opcode\n", exits=9)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A SAS drive."""
    with staged(tmp_path, monkeypatch, "sdq", "ACME") as stage:
        yield stage


def busy(stage: Stage, opcodes: str | Rule = DEBUG + FORMAT + BLOCK + CRYPTO, *, erases: bool = True) -> None:
    """Let a drive format or sanitize in the background; the fourth sg_turs reports that it is ready."""
    stage.play("sg_opcodes", opcodes if isinstance(opcodes, Rule) else Rule(says=opcodes))
    start = Rule(then="begun", says="\nFormat unit has started\n", erases=stage.path if erases else "")
    stage.play("sg_format", start)
    stage.play("sg_sanitize", start)
    stage.play(
        "sg_turs",
        Rule(state="begun", then="some", says="Progress indication: 0.50% done\n"),
        Rule(state="some", then="more", complains="", exits=2),
        Rule(state="more", then="ready", exits=6),
        Rule(state="ready"),
    )


def test_supported_commands_are_parsed() -> None:
    """Operation codes and service actions are parsed from the output of sg_opcodes 1.46 for scsi_debug."""
    commands = _commands(Canned({"opcodes": DEBUG + FORMAT + BLOCK}))

    assert {("00", ""), ("a3", "c"), ("7f", "9"), ("7f", "11"), ("9e", "10"), ("04", ""), ("48", "2")} <= commands
    assert len(commands) == len((DEBUG + FORMAT + BLOCK).splitlines()) - DEBUG.splitlines().index("-" * 47) - 1
    assert ("48", "3") not in commands


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("auto", ["sg_format", "--format", "--quick", "--early"]),
        ("scsi-format", ["sg_format", "--format", "--quick", "--early"]),
        ("scsi-sanitize-block", ["sg_sanitize", "--block", "--quick", "--early"]),
        ("scsi-sanitize-crypto", ["sg_sanitize", "--crypto", "--quick", "--early"]),
    ],
)
def test_the_purge_waits_until_the_drive_is_ready(stage: Stage, name: str, command: list[str]) -> None:
    """The command starts the purge, and the suite polls Test Unit Ready until the drive is ready; no deviation."""
    busy(stage)
    purge = stage.purge(name)

    assert purge.method.startswith("SCSI ")
    assert (purge.samples, purge.survivors, purge.deviations) == (64, 0, ())
    assert stage.commands_without(*QUERIES) == [[*command, stage.path]]
    assert stage.state == "ready"


@pytest.mark.long
def test_a_format_that_keeps_the_data_fails(stage: Stage) -> None:
    """A purge fails if the drive reports success but keeps the data, as QEMU's scsi-hd does."""
    busy(stage, erases=False)
    with pytest.raises(PurgeFailed, match="SCSI Format Unit reported success, but 64 of 64 blocks"):
        stage.purge()


def test_a_medium_error_after_the_command_fails(stage: Stage) -> None:
    """A purge fails if Test Unit Ready reports a medium error, as after a corrupted format."""
    busy(stage)
    stage.play("sg_turs", Rule(complains="test unit ready: Medium or hardware error\n", exits=3))
    with pytest.raises(PurgeFailed, match="not ready after it"):
        stage.purge()


def test_a_drive_that_does_not_become_ready_times_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge that exceeds its time limit fails; the message has the last progress."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.3)
    busy(stage)
    stage.play("sg_turs", Rule(says="Progress indication: 12.50% done\n"))
    with pytest.raises(PurgeFailed, match=r"failed: it is at 12% after"):
        stage.purge()


def test_a_failed_command_is_reported(stage: Stage) -> None:
    """The error message has the last line that the tool printed."""
    busy(stage)
    stage.play("sg_format", Rule(complains="FORMAT UNIT failed\nsg_format failed: Illegal request\n", exits=9))
    with pytest.raises(PurgeFailed, match="failed: sg_format failed: Illegal request"):
        stage.purge()


def test_no_scsi_command_is_sent_to_a_virtio_disk(stage: Stage) -> None:
    """For a disk whose subsystem is not SCSI (virtio) only discard and overwrite are available; no command is sent."""
    busy(stage)
    (stage.block / "device/subsystem").unlink()
    (stage.block / "device/subsystem").symlink_to(stage.root / "sys/bus/virtio")

    assert available_methods(stage.tools().dut, stage.root) == ("blkdiscard", "overwrite")
    assert stage.commands == []


def test_a_command_that_the_drive_does_not_list_is_unavailable(stage: Stage) -> None:
    """If the drive lists its commands, a method whose command is not listed is unavailable."""
    busy(stage, DEBUG + BLOCK)

    assert available_methods(stage.tools().dut, stage.root) == ("scsi-sanitize-block", "blkdiscard", "overwrite")
    with pytest.raises(TargetUnfit, match="does not support Format Unit"):
        choose(stage.tools(), "scsi-format")


def test_a_drive_without_a_command_list_is_formatted_only_on_request(stage: Stage) -> None:
    """If the drive cannot list its commands, blkdiscard is chosen; Format Unit can be requested, Sanitize cannot."""
    busy(stage, UNKNOWN)

    chosen, named = choose(stage.tools(), "auto"), choose(stage.tools(), "scsi-format")
    assert chosen is not None
    assert named is not None
    assert (chosen.name, named.name) == ("blkdiscard", "scsi-format")
    with pytest.raises(TargetUnfit, match="not support this sanitize"):
        choose(stage.tools(), "scsi-sanitize-block")


@pytest.mark.parametrize(("kind", "free"), [("0", True), ("1", False), ("2", False), ("3", False)])
def test_format_is_unavailable_with_protection_information(stage: Stage, kind: str, free: bool) -> None:
    """A drive with protection information is sanitized, which keeps it; Format Unit is unavailable."""
    busy(stage)
    (stage.block / "device/scsi_disk/0:0:0:0").mkdir(parents=True)
    (stage.block / "device/scsi_disk/0:0:0:0/protection_type").write_text(f"{kind}\n")
    if not free:
        with pytest.raises(MethodUnavailable, match="protection information"):
            METHODS["scsi-format"].query(stage.tools())

    chosen = choose(stage.tools(), "auto")
    assert chosen is not None
    assert chosen.name == ("scsi-format" if free else "scsi-sanitize-block")


def units(stage: Stage, **types: str) -> None:
    """Add logical units to the drive's target device: their numbers and SCSI device types."""
    target = stage.root / "sys/devices/host0/target0:2:5"
    for number, kind in {"n0": "0", **types}.items():
        (target / f"0:2:5:{number[1:]}").mkdir(parents=True)
        (target / f"0:2:5:{number[1:]}/type").write_text(f"{kind}\n")
    device = stage.block / "device"
    for entry in device.iterdir():
        entry.rename(target / "0:2:5:0" / entry.name)
    device.rmdir()
    device.symlink_to(target / "0:2:5:0")


@pytest.mark.long
@pytest.mark.parametrize("name", ["auto", "scsi-format", "scsi-sanitize-block", "scsi-sanitize-crypto"])
def test_a_device_with_another_logical_unit_is_not_erased(stage: Stage, name: str) -> None:
    """No erase command is sent if the device has another unit with data (two actuators), which it might erase too."""
    busy(stage)
    units(stage, n1="0")
    with pytest.raises(PurgeFailed, match=r"may erase all logical units of the device, and it has others \(0:2:5:1\)"):
        stage.purge(name)

    assert stage.commands_without(*QUERIES) == []
    assert stage.state == ""
    assert available_methods(stage.tools().dut, stage.root) == ("blkdiscard", "overwrite")


def test_logical_units_without_data_and_other_targets_are_ignored(stage: Stage) -> None:
    """An enclosure, a well-known unit, and a target whose number has the same prefix do not prevent a sanitize."""
    busy(stage)
    units(stage, n1="13", n49409="30")
    (stage.root / "sys/devices/host0/target0:2:5/0:2:50:1").mkdir()

    assert stage.purge("scsi-sanitize-block").survivors == 0
