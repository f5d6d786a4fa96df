"""SCSI Format Unit and Sanitize: what the drive says it has, until it is ready again."""

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

READING = ("sg_opcodes", "sg_turs")
DEBUG = recorded("scsi_debug-opcodes")
FORMAT = " 04                  6    0,0    Format unit\n"
BLOCK = " 48        2        10    0,0    Sanitize, block erase\n"
CRYPTO = " 48        3        10    0,0    Sanitize, cryptographic erase\n"
UNKNOWN = Rule(complains="Report supported operation codes: Illegal request, Invalid opcode\n", exits=9)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A SAS drive."""
    with staged(tmp_path, monkeypatch, "sdq", "ACME") as made:
        yield made


def busy(stage: Stage, opcodes: str | Rule = DEBUG + FORMAT + BLOCK + CRYPTO, *, erases: bool = True) -> None:
    """Let a drive format or sanitize in the background, and be ready after three looks."""
    stage.play("sg_opcodes", opcodes if isinstance(opcodes, Rule) else Rule(says=opcodes))
    done = Rule(then="begun", says="\nFormat unit has started\n", erases=stage.path if erases else "")
    stage.play("sg_format", done)
    stage.play("sg_sanitize", done)
    stage.play(
        "sg_turs",
        Rule(state="begun", then="some", says="Progress indication: 0.50% done\n"),
        Rule(state="some", then="more", complains="", exits=2),
        Rule(state="more", then="ready", exits=6),
        Rule(state="ready"),
    )


def test_commands_are_read() -> None:
    """Operation codes and service actions, of what sg_opcodes 1.46 prints for scsi_debug and for sanitize."""
    found = _commands(Canned({"opcodes": DEBUG + FORMAT + BLOCK}))

    assert {("00", ""), ("a3", "c"), ("7f", "9"), ("7f", "11"), ("9e", "10"), ("04", ""), ("48", "2")} <= found
    assert len(found) == len((DEBUG + FORMAT + BLOCK).splitlines()) - DEBUG.splitlines().index("-" * 47) - 1
    assert ("48", "3") not in found


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("auto", ["sg_format", "--format", "--quick", "--early"]),
        ("scsi-format", ["sg_format", "--format", "--quick", "--early"]),
        ("scsi-sanitize-block", ["sg_sanitize", "--block", "--quick", "--early"]),
        ("scsi-sanitize-crypto", ["sg_sanitize", "--crypto", "--quick", "--early"]),
    ],
)
def test_a_drive_is_purged_until_it_is_ready(stage: Stage, name: str, command: list[str]) -> None:
    """The command begins it, Test Unit Ready tells the progress and the end; it is no Deviation."""
    busy(stage)
    purge = stage.purge(name)

    assert purge.method.startswith("SCSI ")
    assert (purge.samples, purge.survivors, purge.deviations) == (64, 0, ())
    assert stage.acted(*READING) == [[*command, stage.path]]
    assert stage.state == "ready"


def test_a_format_that_lies_is_found_out(stage: Stage) -> None:
    """A drive that says success, is ready at once and keeps the data has not purged (QEMU's scsi-hd)."""
    busy(stage, erases=False)
    with pytest.raises(PurgeFailed, match="SCSI Format Unit reported success, but 64 of 64 blocks"):
        stage.purge()


def test_a_drive_that_is_not_ready_after_it_has_failed(stage: Stage) -> None:
    """A medium error in place of ready (a corrupted format) is the end, and a failure."""
    busy(stage)
    stage.play("sg_turs", Rule(complains="test unit ready: Medium or hardware error\n", exits=3))
    with pytest.raises(PurgeFailed, match="not ready after it"):
        stage.purge()


def test_a_drive_that_never_gets_ready_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.3)
    busy(stage)
    stage.play("sg_turs", Rule(says="Progress indication: 12.50% done\n"))
    with pytest.raises(PurgeFailed, match=r"failed: it is at 12% after"):
        stage.purge()


def test_a_command_that_is_refused_is_told(stage: Stage) -> None:
    """The tool's last words are in the sentence."""
    busy(stage)
    stage.play("sg_format", Rule(complains="FORMAT UNIT failed\nsg_format failed: Illegal request\n", exits=9))
    with pytest.raises(PurgeFailed, match="failed: sg_format failed: Illegal request"):
        stage.purge()


def test_a_disk_that_speaks_no_scsi_is_not_asked(stage: Stage) -> None:
    """A paravirtual disk (virtio) has no such commands."""
    busy(stage)
    (stage.block / "device/subsystem").unlink()
    (stage.block / "device/subsystem").symlink_to(stage.root / "sys/bus/virtio")

    assert available_methods(stage.tools().dut, stage.root) == ("blkdiscard", "overwrite")
    assert stage.commands == []


def test_what_a_drive_does_not_list_it_has_not(stage: Stage) -> None:
    """A drive that lists its commands has those, and no others."""
    busy(stage, DEBUG + BLOCK)

    assert available_methods(stage.tools().dut, stage.root) == ("scsi-sanitize-block", "blkdiscard", "overwrite")
    with pytest.raises(TargetUnfit, match="does not support Format Unit"):
        choose(stage.tools(), "scsi-format")


def test_a_drive_that_lists_nothing_is_formatted_by_name_only(stage: Stage) -> None:
    """Where the drive does not tell its commands, a discard is chosen; Format Unit, which disks have, by name."""
    busy(stage, UNKNOWN)

    chosen, named = choose(stage.tools(), "auto"), choose(stage.tools(), "scsi-format")
    assert chosen is not None
    assert named is not None
    assert (chosen.name, named.name) == ("blkdiscard", "scsi-format")
    with pytest.raises(TargetUnfit, match="not support this sanitize"):
        choose(stage.tools(), "scsi-sanitize-block")


@pytest.mark.parametrize(("kind", "free"), [("0", True), ("1", False), ("2", False), ("3", False)])
def test_protection_information_is_not_formatted_away(stage: Stage, kind: str, free: bool) -> None:
    """A drive that is formatted with protection information is sanitized, which keeps it, and not formatted."""
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
    """Give the drive's target device more logical units, by number, of these SCSI device types."""
    target = stage.root / "sys/devices/host0/target0:2:5"
    for number, kind in {"n0": "0", **types}.items():
        (target / f"0:2:5:{number[1:]}").mkdir(parents=True)
        (target / f"0:2:5:{number[1:]}/type").write_text(f"{kind}\n")
    device = stage.block / "device"
    for entry in device.iterdir():
        entry.rename(target / "0:2:5:0" / entry.name)
    device.rmdir()
    device.symlink_to(target / "0:2:5:0")


@pytest.mark.parametrize("name", ["auto", "scsi-format", "scsi-sanitize-block", "scsi-sanitize-crypto"])
def test_a_device_with_another_logical_unit_is_not_erased(stage: Stage, name: str) -> None:
    """A drive with two actuators may erase both: nothing is sent, and what affects one unit can be named."""
    busy(stage)
    units(stage, n1="0")
    with pytest.raises(PurgeFailed, match=r"may erase all logical units of the device, and it has others \(0:2:5:1\)"):
        stage.purge(name)

    assert stage.acted(*READING) == []
    assert stage.state == ""
    assert available_methods(stage.tools().dut, stage.root) == ("blkdiscard", "overwrite")


def test_a_logical_unit_without_data_does_not_matter(stage: Stage) -> None:
    """An enclosure and a well-known unit have none; a target with a number that begins alike is another device."""
    busy(stage)
    units(stage, n1="13", n49409="30")
    (stage.root / "sys/devices/host0/target0:2:5/0:2:50:1").mkdir()

    assert stage.purge("scsi-sanitize-block").survivors == 0
